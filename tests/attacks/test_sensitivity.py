"""The checks of attacks notice: each public function with a plausible slip in it
turns its check red.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpriv import attacks
from jaxpriv.attacks import Campaign, canaries, games, reference, scores
from jaxpriv.stats import chi2, ncx2, norm
from tests.attacks import (
    test_campaign,
    test_canaries,
    test_games,
    test_gradients,
    test_losses,
    test_quantile,
    test_reference,
    test_rmia,
    test_scores,
)
from tests.slips import check_is_red


def check_estimate():
    test_reference.test_estimates(60, 12, "full", 0.2)


def check_low_rank():
    test_reference.test_estimates(12, 60, "low_rank", "oas")


def printed_glir(release, queries, law, batch_size, noise_std=0.0):
    """n-1 for n in the statistic."""
    released = law.of_mean(batch_size, noise_std)
    queried, shared, mean = scores._distances(release, queries, released)
    return -ncx2.logcdf(
        (mean - 2 * shared + queried) * (1 - 1 / batch_size), law.mean.shape[-1] * 1.0, queried
    )


def floored_glir(release, queries, law, batch_size, noise_std=0.0, true=attacks.glir):
    return jnp.minimum(true(release, queries, law, batch_size, noise_std), 8.0)


def uncentred(gradients, form="auto", shrinkage="ledoit_wolf", true=reference.estimate):
    """The second moment for the covariance, as Azize and Basu 2025 prints it."""
    law = true(gradients, form, shrinkage)
    both = np.concatenate([gradients, -gradients])
    if hasattr(law, "_replace"):
        return law._replace()
    return type(law)(law.mean, *jax.tree.leaves(true(both, form, shrinkage))[1:])


def inside_the_span(law, x, y):
    a, b = (v @ law.centred.T @ law.rotation for v in (x, y))
    return tuple(jnp.sum(v * w / law.variances, -1) for v, w in ((a, a), (a, b), (b, b)))


def off(module, name, change):
    """A public function whose result is changed."""
    true = getattr(module, name)
    return lambda *args, **kwargs: change(true(*args, **kwargs))


def same_coin(key, release, score, rounds, batch_size=32):
    """The member decides nothing: the release never holds the record."""
    keys = jax.random.split(key, rounds)
    return jax.lax.map(lambda k: score(release(k, False)), keys), jax.vmap(jax.random.bernoulli)(
        keys
    )


def first_place(mechanism, draw, size, target):
    def release(key, member):
        data = jax.tree.map(lambda rows, row: rows.at[0].set(jnp.where(member, row, rows[0])),
                            draw(key, size), target)
        return mechanism(key, data)

    return release


def known_target(mechanism, draw, size):
    """Always the same target."""
    target = jax.tree.map(lambda rows: rows[0], draw(jax.random.key(0), 1))
    return lambda key, member: (target, games.crafter(mechanism, draw, size, target)(key, member))


def on_the_others(key, train, *args, true=attacks.campaign, **settings):
    """Models are trained on those who are out."""
    return true(key, lambda key, data, member: train(key, data, ~member), *args, **settings)


def one_law(key, seen, features, out, out_features, true=attacks.quantile_regression):
    return true(key, seen, 0 * features, out, 0 * out_features)


SLIPS = {
    "the printed n - 1": (attacks, "glir", printed_glir, test_scores.check_oracle),
    "a floor under log p": (attacks, "glir", floored_glir, test_scores.check_range),
    "the opposite sign": (attacks, "glir", off(attacks, "glir", jnp.negative),
                          test_scores.check_power),
    "covariance without its constant": (attacks, "covariance",
                                        off(attacks, "covariance", lambda s: s + 0.1),
                                        test_scores.check_oracle),
    "the reference's release": (attacks, "scalar_product", lambda m, q, law=None: q @ m,
                                test_scores.check_scalar),
    "no log of the zeros": (
        attacks,
        "bernoulli_likelihood_ratio",
        lambda m, q, p: jnp.sum(jnp.where(jnp.asarray(q) > 0.5, jnp.log(m / p), 0.0), -1),
        test_scores.check_bernoulli,
    ),
    "length, not squared": (attacks, "folded", off(attacks, "folded", jnp.sqrt),
                            test_scores.check_folded),
    "degrees of freedom of Fisher's law": (attacks, "fisher",
                                           lambda s: -chi2.logsf(2 * jnp.sum(s, 0), 1.0 * len(s)),
                                           test_scores.check_fisher),
    "softmax without the own class": (
        attacks,
        "confidence",
        lambda logits, labels: jax.nn.log_softmax(jnp.asarray(logits))[
            jnp.arange(len(labels)), jnp.asarray(labels)
        ],
        test_losses.check_confidence,
    ),
    "the loss itself": (attacks, "loss_threshold", jnp.asarray, test_losses.check_loss),
    "the lower tail": (
        attacks,
        "offline_lira",
        lambda seen, out, same_spread=False: (
            -norm.logcdf((seen - out.mean(0)) / out.std(0, ddof=1))
        ),
        test_losses.check_offline,
    ),
    "in and out exchanged": (attacks, "online_lira", off(attacks, "online_lira", jnp.negative),
                             test_losses.check_online),
    "the mean of unseen models for p(x)": (
        attacks,
        "rmia",
        lambda *args, a=0.3, true=attacks.rmia, **settings: true(*args, a=1.0, **settings),
        test_rmia.check_rmia,
    ),
    "features not seen": (attacks, "quantile_regression", one_law, test_quantile.check_law),
    "trained on the others": (attacks, "campaign", on_the_others, test_campaign.check_campaign),
    "a lower bound rounded to the nearest": (
        Campaign,
        "rows",
        lambda self, true=Campaign.rows: [
            (*row[:3], row[3].replace("1.23", "1.24")) for row in true(self)
        ],
        test_campaign.check_rows,
    ),
    "a lower bound for a guarantee": (
        Campaign,
        "lines",
        lambda self, true=Campaign.lines: [line.replace("no guarantee", "a guarantee")
                                           for line in true(self)],
        test_campaign.check_lines,
    ),
    "nothing refuted": (Campaign, "refuted", property(lambda self: []),
                        test_campaign.check_refuted),
    "no picture": (Campaign, "plot", lambda self, path: None, test_campaign.check_plot),
    "gradients of the sum": (
        attacks,
        "per_example_gradients",
        off(attacks, "per_example_gradients", lambda g: jnp.broadcast_to(g.sum(0), g.shape)),
        test_gradients.check_nnx,
    ),
    "clipping by entry": (attacks, "clip", lambda g, norm: jnp.clip(g, -norm, norm),
                          test_canaries.check_craft),
    "an uncentred covariance": (reference, "estimate", uncentred, check_estimate),
    "the printed estimate over n - 1": (
        reference,
        "estimate",
        lambda *args, true=reference.estimate: type(law := true(*args))(
            law.mean, law.factor * np.sqrt(60 / 59)
        ),
        check_estimate,
    ),
    "noise not added": (reference.Full, "of_mean",
                        lambda self, n, noise=0.0: reference.Full(self.mean, self.factor / n**0.5),
                        check_estimate),
    "the span alone": (reference.LowRank, "products", inside_the_span, check_low_rank),
    "variances not inverted": (
        reference.Diagonal,
        "products",
        lambda self, x, y: tuple(
            jnp.sum(v * w * self.variances, -1) for v, w in ((x, x), (x, y), (y, y))
        ),
        test_reference.test_diagonal,
    ),
    "a covariance for its factor": (
        reference,
        "known",
        lambda mean, c: reference.Full(mean, c) if c.ndim == 2 else reference.Diagonal(mean, c),
        test_reference.test_known,
    ),
    "coins that change nothing": (games, "play", same_coin, test_games.check_fixed),
    "always the first place": (games, "crafter", first_place, test_games.check_crafter),
    "always the same target": (games, "target_crafter", known_target,
                               test_games.check_target_crafter),
    "scores of the others": (games, "fixed_target",
                             lambda *args, true=games.fixed_target: ((r := true(*args))[0], ~r[1]),
                             test_games.check_fixed),
    "averages of the others": (
        games,
        "average_target",
        lambda *args, true=games.average_target: ((r := true(*args))[0], ~r[1]),
        test_games.check_average,
    ),
    "distance, not squared": (canaries, "mahalanobis", off(canaries, "mahalanobis", jnp.sqrt),
                              test_canaries.check_mahalanobis),
    "hard before easy": (canaries, "easy_medium_hard",
                         off(canaries, "easy_medium_hard", lambda p: p[::-1]),
                         test_canaries.check_order),
    "norm 1": (canaries, "dirac", lambda dim, norm=1.0, index=0: jnp.zeros(dim).at[index].set(1.0),
               test_canaries.check_dirac),
    "a label may stay": (
        canaries,
        "mislabelled",
        lambda key, labels, classes: jax.random.randint(key, labels.shape, 0, classes),
        test_canaries.check_mislabelled,
    ),
    "blank but its label": (canaries, "blank", lambda e: {**e, "x": jnp.zeros_like(e["x"])},
                            test_canaries.check_blank),
    "not moved": (
        canaries,
        "craft",
        lambda loss, w, example, *args, true=canaries.craft, **settings: (
            example,
            true(loss, w, example, *args, **settings)[1],
        ),
        test_canaries.check_craft,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLIPS)
def test_slip_is_seen(name, monkeypatch):
    check_is_red(monkeypatch, *SLIPS[name])


def public(module):
    """The functions that a module defines and shows."""
    return {
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
        and not isinstance(value, type)
    }


def test_every_public_name_has_a_slip():
    offered = {name: getattr(attacks, name) for name in attacks.__all__}
    names = {
        name for name, value in offered.items() if callable(value) and not isinstance(value, type)
    }
    names |= {name for name in vars(Campaign) if not name.startswith("_")}
    names |= public(canaries) | public(games) | public(reference)
    assert names <= {attribute for _, attribute, _, _ in SLIPS.values()}
