"""Opacus' trainings through the bridge, against its own accountants (pip install
'jaxpriv[opacus]', a gigabyte: by hand, -m long).
"""

import io
import math

import numpy as np
import opacus
import pytest
import torch
from opacus.accountants import PRVAccountant, RDPAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier

import jaxpriv
from jaxpriv import worst_case
from jaxpriv.bridges import opacus as bridge
from tests.bridges.readme import block_of_readme
from tests.slips import check_is_red

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]
ERROR = 0.01  # Opacus' own, by default: its answer is the upper end of an interval
HISTORIES = {
    "one noise": [(1.0, 0.01, 1000)],
    "much noise": [(8.0, 0.1, 300)],
    "every record": [(6.0, 1.0, 20)],
    "little noise": [(0.6, 0.004, 500)],
    "two rates": [(1.0, 0.01, 500), (1.0, 0.03, 100)],
    "noise that falls": [(1.5 * 0.95**i, 0.02, 20) for i in range(12)],
}


def theirs(history, delta):
    """The interval in which Opacus' accountant is sure to have epsilon."""
    accountant = PRVAccountant()
    accountant.history = history
    found = accountant._get_dprv(ERROR, delta / 1000).compute_epsilon(delta, delta / 1000, ERROR)
    return found[0], found[2]


def check_history(name):
    history = HISTORIES[name]
    for delta in (1e-6, 1e-3):
        accountant = create_accountant("jaxpriv")
        accountant.history = history
        low, high = theirs(history, delta)
        assert low <= accountant.get_epsilon(delta) <= high


@pytest.mark.parametrize("name", HISTORIES)
def test_inside_their_error(name):
    check_history(name)


def test_slips_are_noticed(monkeypatch):
    def less(noise, rate, steps):
        return worst_case.subsampled_gaussian(1.05 * noise, rate, steps)

    check_is_red(monkeypatch, bridge, "_steps", less, lambda: check_history("one noise"))
    check_is_red(monkeypatch, jaxpriv, "compose", lambda *curves: curves[0],
                 lambda: check_history("two rates"))  # fmt: skip
    check_is_red(monkeypatch, bridge.Accountant, "step",
                 lambda self, noise_multiplier, sample_rate: self.history.append(
                     (noise_multiplier, sample_rate, 2)), test_steps_are_counted)  # fmt: skip


def test_curve_of_a_history():
    """Against what is known otherwise; equal steps count together wherever they stand."""
    once = bridge.curve([(1.0, 0.01, 1000)])
    assert once.delta(1.0) == worst_case.subsampled_gaussian(1.0, 0.01, 1000).symmetric().delta(1.0)
    parted = bridge.curve([(1.0, 0.01, 300), (2.0, 0.02, 0), (1.0, 0.01, 700)])
    np.testing.assert_array_equal(parted.epsilon_bounds(1e-5), once.epsilon_bounds(1e-5))
    assert bridge.curve([(2.0, 1.0, 4)]).gdp_mu() == pytest.approx(1.0, rel=1e-13)
    assert bridge.curve([]).delta(0.0) == 0.0
    # no noise tells who took part in any of the steps
    told = bridge.curve([(0.0, 0.1, 3)])
    assert told.delta(9.0) == pytest.approx(1 - 0.9**3)
    assert told.epsilon(0.1) == math.inf
    # a thousand different noises, between the ends
    low, high = (bridge.curve([(noise, 0.01, 1000)]).epsilon(1e-5) for noise in (1.5, 1.0))
    many = bridge.curve([(1.0 + i / 2000, 0.01, 1) for i in range(1000)])
    bounds = many.epsilon_bounds(1e-5)
    assert low < bounds[0] <= bounds[1] < high
    assert bounds[1] - bounds[0] < 1e-6


@pytest.mark.parametrize("wrong", [(-1.0, 0.1, 1), (1.0, 0.0, 1), (1.0, 1.5, 1), (0.0, 2.0, 1),
                                   (1.0, 0.1, -1), (1.0, 0.1, 1.5)])  # fmt: skip
def test_numbers_outside_their_range(wrong):
    with pytest.raises(ValueError, match="outside its range"):
        bridge.curve([wrong])


def test_steps_are_counted():
    accountant = create_accountant("jaxpriv")
    assert accountant.get_epsilon(1e-5) == 0.0
    for noise in (1.0, 1.0, 2.0, 1.0):
        accountant.step(noise_multiplier=noise, sample_rate=0.1)
    assert accountant.history == [(1.0, 0.1, 2), (2.0, 0.1, 1), (1.0, 0.1, 1)]
    assert len(accountant) == 4
    assert accountant.mechanism() == "jaxpriv"
    again = create_accountant("jaxpriv")
    again.load_state_dict(accountant.state_dict())
    assert again.get_epsilon(1e-5) == accountant.get_epsilon(1e-5) > 0
    with pytest.raises(ValueError, match="rdp cannot be loaded"):
        again.load_state_dict(RDPAccountant().state_dict())


def data_and_model():
    torch.manual_seed(0)
    x = torch.randn(400, 5)
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    model = torch.nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loader = torch.utils.data.DataLoader(data, batch_size=20)
    return x, data.tensors[1], {"module": model, "optimizer": optimizer, "data_loader": loader}


def train(model, optimizer, loader, epochs):
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def test_training():
    """As Opacus' tutorial has it, but for one word."""
    x, y, private = data_and_model()
    engine = opacus.PrivacyEngine(accountant="jaxpriv")
    model, optimizer, loader = engine.make_private(
        **private, noise_multiplier=1.0, max_grad_norm=1.0
    )
    train(model, optimizer, loader, 3)
    assert engine.accountant.history == [(1.0, 0.05, 60)]
    low, high = theirs(engine.accountant.history, 1e-5)
    assert low <= engine.get_epsilon(1e-5) <= high
    with torch.no_grad():  # a forward pass with gradients leaves activations in the module
        assert (model(x).argmax(1) == y).float().mean() > 0.7
    # its checkpoints carry the history
    saved = io.BytesIO()
    engine.save_checkpoint(path=saved, module=model, optimizer=optimizer)
    saved.seek(0)
    other = opacus.PrivacyEngine(accountant="jaxpriv")
    other.load_checkpoint(path=saved, module=model)
    assert other.get_epsilon(1e-5) == engine.get_epsilon(1e-5)
    # another noise from here on
    schedule = opacus.schedulers.ExponentialNoise(optimizer, gamma=0.9)
    before = engine.get_epsilon(1e-5)
    schedule.step()
    train(model, optimizer, loader, 1)
    assert engine.accountant.history[1][0] == pytest.approx(0.9)
    low, high = theirs(engine.accountant.history, 1e-5)
    assert before < low <= engine.get_epsilon(1e-5) <= high


def test_readme():
    _, _, private = data_and_model()
    names = {"model": private["module"], "optimizer": private["optimizer"],
             "loader": private["data_loader"]}  # fmt: skip
    start, end = block_of_readme("import jaxpriv.bridges.opacus").split("...")
    exec(start, names)
    train(names["model"], names["optimizer"], names["loader"], 1)
    exec(end, names)
    assert names["engine"].accountant.history == [(1.0, 0.05, 20)]


def test_target():
    """Their calibration, by this accountant: on the private side, and as close as it goes."""
    _, _, private = data_and_model()
    engine = opacus.PrivacyEngine(accountant="jaxpriv")
    model, optimizer, loader = engine.make_private_with_epsilon(
        **private, target_epsilon=2.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0
    )
    train(model, optimizer, loader, 2)
    assert 2.0 - 0.01 <= engine.get_epsilon(1e-5) <= 2.0
    exact = jaxpriv.calibrate(
        lambda noise: worst_case.subsampled_gaussian(noise, 0.05, 40).symmetric(),
        epsilon=2.0, delta=1e-5,
    )  # fmt: skip
    target = {"target_epsilon": 2.0, "target_delta": 1e-5, "sample_rate": 0.05, "steps": 40}
    found = get_noise_multiplier(**target, accountant="jaxpriv", epsilon_tolerance=1e-6)
    assert exact <= found * (1 + 1e-12)
    assert found < exact * (1 + 1e-5)
    assert found < get_noise_multiplier(**target, accountant="rdp")
    # settings of theirs are no hindrance
    assert found == get_noise_multiplier(**target, accountant="jaxpriv", epsilon_tolerance=1e-6,
                                         eps_error=0.1, alphas=[2.0])  # fmt: skip
