"""The page of a certificate: its sentence in plain words against the exact optimum and a simulated
attack, its pictures against the curves, its colours as colour-blind people see them,
and in Chromium.
"""

import html.parser
import itertools
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import jaxpriv
from jaxpriv import cli
from jaxpriv.report import DpSgd, Mechanism, Pipeline, certify, figures, plain_words, profiles
from jaxpriv.report.model_card import model_card
from jaxpriv.report.page import page
from jaxpriv.report.page_style import STYLE
from jaxpriv.report.plain_words import guessed_right, in_plain_words, share_right
from jaxpriv.training import profile
from tests.slips import check_is_red

NORM = scipy.stats.norm
RECORD = ("add_remove", "record", 1)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which(
    "google-chrome"
)


def lines_at(curve, delta=1e-5):
    """As a certificate has them."""
    epsilon = float(curve.epsilon_bounds(delta)[1])
    epsilon = epsilon if np.isfinite(epsilon) else None
    epsilons = profiles.epsilons_of(epsilon)
    deltas = curve.delta_bounds(np.asarray(epsilons))[1]
    row = {"epsilon": epsilon, "profile": profiles.profile_of(zip(epsilons, deltas))}
    return profiles.lines_of(row, delta)


def gaussian_lines(mu):
    return lines_at(jaxpriv.worst_case.gaussian(mu))


def optimum(mu):
    """The share of right accusations of the best test of N(0, 1) against N(mu, 1)."""

    def excess(t):
        return NORM.sf(NORM.isf((1 - t) * 10 / 990) - mu) - t

    return scipy.optimize.brentq(excess, 1e-4, 1 - 1e-12, xtol=1e-15)


def check_optimum(mu):
    bound = share_right(gaussian_lines(mu))
    assert optimum(mu) <= bound < 1.03 * optimum(mu)


@pytest.mark.parametrize("mu", [0.001, 0.03, 0.3, 1.0, 2.0, 5.0, 8.0])
def test_plain_words_against_the_exact_optimum(mu):
    check_optimum(mu)


def check_guesses(mu):
    """Of a normal law with all its lines little more than the power itself."""
    curve = jaxpriv.worst_case.gaussian(mu)
    low, _ = curve.reconstruction_success_bounds(0.1)
    assert low <= guessed_right(gaussian_lines(mu)) < 1.03 * low


@pytest.mark.parametrize("mu", [0.001, 0.3, 1.0, 3.0, 8.0])
def test_guesses_at_a_record_against_the_power(mu):
    check_guesses(mu)


def test_plain_words_against_pure_privacy():
    """tpr = e^eps alpha is all that a ratio allows of few accusations."""
    want = np.e / 99 / (1 + np.e / 99)
    curve = jaxpriv.worst_case.randomized_response(1.0)
    assert want < share_right(lines_at(curve, 1e-9)) < want * (1 + 1e-6)


def test_plain_words_against_a_simulated_attack():
    """Everybody's release beside the exact threshold that accuses ten of a thousand on average."""
    mu, rounds = 1.0, 4000
    random = np.random.default_rng(0)
    took_part = random.random((rounds, 1000)) < 0.01
    seen = random.normal(size=took_part.shape) + mu * took_part
    accused = seen > NORM.isf((1 - optimum(mu)) * 10 / 990)
    assert abs(accused.sum(1).mean() - 10) < 5 * np.sqrt(10 / rounds)
    right = (accused & took_part).sum(1).mean()
    said = in_plain_words(gaussian_lines(mu), RECORD)["right"]
    assert said - 5 * np.sqrt(said / rounds) - 0.03 * said < right
    assert right < said + 5 * np.sqrt(said / rounds)


@pytest.mark.parametrize(("protects", "words"), [
    (RECORD, "Of 1000 people, each with one record, 10 took part."),
    (("zero_out", "record", 1), "zeroed out"),
    (("add_remove", "user", 1), "each with all their records, 10 took part"),
    (("add_remove", "record", 3), "groups of up to 3 people, each person with one record, 10"),
    (("replace_one", "record", 1), "10 have a certain secret: it decides which of two known"),
    ((None, None, 1), "that the numbers of the mechanism are given for"),
])  # fmt: skip
def test_who_is_protected(protects, words):
    found = in_plain_words([(0.0, 0.1)], protects)
    assert words in f"{found['sentence']} {found['holds']}"
    assert found["guessed"] == pytest.approx(2.0)
    assert "is right at most 2 times in 10 with it" in found["reconstruction"]
    assert "whom the worst case covers" in found["holds"]


@pytest.mark.parametrize("curve", [
    jaxpriv.worst_case.gaussian(0.02), jaxpriv.worst_case.gaussian(1.0),
    jaxpriv.worst_case.gaussian(6.0), jaxpriv.worst_case.laplace(1.0),
    jaxpriv.worst_case.approximate_dp(1.0, 0.01),
])  # fmt: skip
def test_drawn_curve_is_no_higher(curve):
    """The polygon lies on or below the curve, close to it, symmetric and falling."""
    alpha, beta = profiles.polygon(lines_at(curve))
    grid = np.linspace(0, 1, 1001)
    gap = np.asarray(curve(grid)) - np.interp(grid, alpha, beta)
    assert np.all(gap > -1e-9)
    assert np.all(gap < 0.03)  # most where a corner lies between two epsilons
    assert np.all(np.diff(alpha) >= -1e-12)
    assert np.all(np.diff(beta) <= 1e-12)
    np.testing.assert_allclose(alpha, beta[::-1])


def test_a_profile_that_is_not_convex():
    """The least of two: lines that are nowhere the highest leave no trace."""
    told = [(0.0, 0.3), (0.5, 0.2999), (1.0, 0.05), (1.0, 0.05), (1.5, 0.06), (2.0, 0.01)]
    alpha, beta = profiles.polygon(told)
    at = np.linspace(0, 1, 2001)
    lines = [side for e, d in told for side in (1 - d - np.exp(e) * at, (1 - d - at) * np.exp(-e))]
    np.testing.assert_allclose(np.interp(at, alpha, beta), np.max([*lines, 0 * at], 0), atol=1e-12)


def check_chords():
    """Between few known deltas: never below the profile, and on it where it is known; that of
    randomised response is a chord itself.
    """
    for curve in (jaxpriv.worst_case.gaussian(1.0), jaxpriv.worst_case.randomized_response(3.0)):
        at = [0.0, 0.1, 1.0, 2.0, 3.0]
        known = [(epsilon, float(curve.delta(epsilon))) for epsilon in at]
        fine = np.linspace(0, 5, 101)
        assert np.all(profile.chords(known, fine) >= np.asarray(curve.delta(fine)))
        np.testing.assert_allclose(
            profile.chords(known, at), [delta for _, delta in known], atol=1e-14
        )


def test_chords():
    check_chords()


@pytest.mark.parametrize("epsilon", [0.0, 1e-5, 0.3, 1.0, 3.0, 9.99, 77.0, 600.0, None])
def test_epsilons_do_not_hang_on_last_digits(epsilon):
    found = profiles.epsilons_of(epsilon)
    assert len(set(found)) == 26
    assert found == sorted(found)
    assert found[-1] >= (min(epsilon, 500.0) if epsilon is not None else 9)
    if epsilon is not None:
        assert found == profiles.epsilons_of(epsilon * (1 + 1e-9))
        assert found == profiles.epsilons_of(epsilon * (1 - 1e-9))
    assert [float(text) for text in profiles.profile_of(zip(found, found))] == found


@pytest.fixture(scope="module")
def certificates():
    told = Mechanism("gaussian", (1.0,), (0.2,), dim=10)
    black = {"mechanism": "approximate_dp", "epsilon": 0.0, "delta": 0.5}
    return {
        "dp-sgd": certify(DpSgd(dataset_size=50_000, batch_size=500, epochs=10,
                                noise_multiplier=1.0)),
        "vacuous": certify(told), "hopeless": certify(Mechanism("gaussian", (1.0,), (1e-3,))),
        "infinite": certify(Pipeline([black])),
    }  # fmt: skip


class _Tags(html.parser.HTMLParser):
    """Balanced? And what elements have."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", ["dp-sgd", "vacuous", "hopeless", "infinite"])
def test_page_stands_alone(name, certificates):
    """No script, no link, nothing to load; every picture tells what it shows."""
    text = page(certificates[name])
    tags = _Tags(text)
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "link", "img", "iframe", "object"}
    for word in ("http://", "https://", "url(", "@import", " src=", " href="):
        assert word not in text
    assert "default-src 'none'" in text
    pictures = [found for tag, found in tags.seen if tag == "svg"]
    assert len(pictures) > 5
    for found in pictures:
        assert found.get("aria-hidden") == "true" or len(found["aria-label"]) > 40
    assert "NaN" not in text
    assert "nan" not in text


def test_page_says_first_what_matters(certificates):
    certificate = certificates["dp-sgd"]
    text = page(certificate)
    places = [text.index(words) for words in (
        certificate["in_plain_words"]["sentence"], 'class="people"', "<table>", "What is assumed",
        "Technical part", "model card",
    )]  # fmt: skip
    assert places == sorted(places)
    assert certificate["if_shuffled"]["sentence"] in text
    for row in certificate["adversaries"]:
        assert row["assumption"] in text.replace("&#x27;", "'")
    assert model_card(certificate) in html.unescape(text)
    assert 'class="warning"' not in text


def test_classes_and_warnings(certificates):
    """The worst case alone is in the class of guarantees; vacuous ones are marked above all."""
    text = page(certificates["vacuous"])
    sure, weak = re.findall(r"<tbody.*?</tbody>", text, re.DOTALL)
    assert "worst case" in sure
    assert "relaxed" not in sure
    assert weak.count("<td data-name=\"attacker\">relaxed") == 2
    assert "NO GUARANTEE" in weak
    assert text.index('class="warning"') < text.index('class="plain"')
    assert "The worst case is vacuous here: epsilon = " in text
    infinite = page(certificates["infinite"])
    assert "no epsilon is certified" in infinite
    assert "for any certified ε at δ = 1e-05" in infinite
    assert "weaker" not in re.search("<table>.*</table>", infinite, re.DOTALL)[0]


def test_page_shows_the_certificate_s_own_numbers(certificates):
    certificate = json.loads(json.dumps(certificates["dp-sgd"]))
    certificate["adversaries"][1]["advantage"] = 0.0777123
    certificate["in_plain_words"]["right"] = 4.2
    certificate["adversaries"][0]["profile"]["2.5"] = 0.000123
    text = page(certificate)
    for shown in ("0.07772", "at most 42 are right", "δ(2.5) ≤ 0.000123"):
        assert shown in text


@pytest.mark.parametrize(("right", "filled"), [(0.1, 1), (0.25, 3), (10.0, 100)])
def test_people(right, filled):
    drawn = figures.people({"right": right})
    assert drawn.count('<g class="wrong">') == 101  # and the legend's
    whole_or_part = drawn.count('<g class="right">') - 1
    assert whole_or_part == filled
    assert drawn.count('<g class="guess">') - 1 == 1
    assert f"right beyond that: at most {right * 10 - 1:g}<" in drawn
    assert f"wrong: at least {100 - right * 10:g}<" in drawn


def test_history():
    """Of a training: what it spent and, where it was evaluated, learned; nothing that is no number.
    """
    rows = [{"step": step, "epsilon": step / 9, "test_accuracy": 0.77777 - 1 / step}
            for step in (5, 9)]  # fmt: skip
    drawn = figures.history_figures(rows, 1e-5)
    assert drawn.count("<figure") == 2
    assert "step 5: ε at δ = 1e-05: 0.5556<" in drawn
    assert "step 9: accuracy, held-out records: 0.6667<" in drawn
    rows[0]["test_accuracy"] = float("nan")
    assert figures.history_figures(rows, 1e-5).count("<figure") == 1
    assert figures.history_figures([], 1e-5) == ""


def test_model_card(certificates):
    for certificate in certificates.values():
        text = model_card(certificate)
        assert certificate["in_plain_words"]["sentence"] in text
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1
        assert len(lines) == 2 + len(certificate["adversaries"])
        assert sum("| yes |" in line for line in lines) == 1
        assert "| worst case | yes |" in text


def test_command_writes_all(tmp_path, capsys):
    flags = ["certify", "--noise", "gaussian", "--sensitivity", "1", "--std", "2", "--out"]
    assert cli.main([*flags, str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "certificate.json", "certificate.html", "certificate.md", "certificate.png"
    }
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert (tmp_path / "certificate.html").read_text() == page(certificate)
    assert (tmp_path / "certificate.md").read_text() == model_card(certificate)
    assert "certificate.html" in capsys.readouterr().err
    assert cli.main(["verify", str(tmp_path / "certificate.json")]) == 0


def colours():
    """{name: linear RGB} of the light and of the dark page."""
    dark = STYLE.index("@media screen")
    found = []
    for block in (STYLE[:dark], STYLE[dark : STYLE.index("* { box-sizing")]):
        pairs = re.findall(r"--([\w-]+): (#[0-9a-f]+)", block)
        found.append({name: linear(value) for name, value in pairs})
    return found


def linear(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    share = np.array([int(digits[k : k + 2], 16) for k in (0, 2, 4)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Of WCAG 2."""
    low, high = sorted(np.array([0.2126, 0.7152, 0.0722]) @ each for each in (one, other))
    return (high + 0.05) / (low + 0.05)


# Machado, Oliveira and Fernandes (2009), severity 1, of linear RGB
BLIND = {
    "nobody": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour):
    share = XYZ @ np.clip(colour, 0, 1) / XYZ.sum(1)
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("page_colours", colours(), ids=["light", "dark"])
def test_colours(page_colours):
    """Text is legible by WCAG, and curves are told apart by whoever looks at them."""
    for text, back in (("ink", "paper"), ("faint", "paper"), ("sure", "sure-back"),
                       ("weak", "paper"), ("alarm", "alarm-back"), ("ink", "sure-back"),
                       ("ink", "alarm-back")):  # fmt: skip
        assert contrast(page_colours[text], page_colours[back]) >= 4.5, (text, back)
    for name, matrix in BLIND.items():
        seen = [lab(np.asarray(matrix) @ page_colours[each]) for each in ("sure", "weak", "third")]
        for one, other in itertools.combinations(seen, 2):
            assert np.linalg.norm(one - other) > 20, name


SLIPS = {
    "odds of one in a hundred": ("_ODDS", 0.01, lambda: check_optimum(0.001)),
    "the other direction": ("_of_line", lambda e, d: 1 - np.exp(-e) * (1 - d),
                            lambda: check_optimum(1.0)),
    "guesses by the lines of one direction alone": (
        "_power_of_line", lambda e, d: 1 - np.exp(-e) * (1 - d), lambda: check_guesses(1.0)),
    "guesses without delta": ("_power_of_line", lambda e, d: 0.1 * np.exp(e),
                              lambda: check_guesses(1.0)),
    "lines without delta": ("_of_line", lambda e, d: np.exp(e) / (99 + np.exp(e)),
                            lambda: check_optimum(1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", SLIPS)
def test_slips_turn_red(name, monkeypatch):
    where, wrong, check = SLIPS[name]
    check_is_red(monkeypatch, plain_words, where, wrong, check)


def test_slip_of_chords(monkeypatch):
    check_is_red(monkeypatch, profiles.np, "expm1", np.asarray, check_chords)


def chromium(folder, *arguments):
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user",
         "--allow-file-access-from-files", *arguments],
        capture_output=True, text=True, timeout=120, check=True, cwd=folder,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_in_chromium(tmp_path, certificates):
    """One A4 page on paper; nothing sticks out at 320, 400 and 1200 pixels, folded or open."""
    text = page(certificates["dp-sgd"])
    (tmp_path / "page.html").write_text(text)
    (tmp_path / "open.html").write_text(text.replace("<details>", "<details open>"))
    chromium(tmp_path, "--print-to-pdf=page.pdf", "--no-pdf-header-footer",
             f"file://{tmp_path}/page.html")  # fmt: skip
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) == 1
    width, height = re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)", pdf).groups()
    assert (round(float(width)), round(float(height))) == (595, 842)
    frames = "".join(f'<iframe src="{name}.html" style="width:{width}px;height:900px"></iframe>'
                     for name in ("page", "open") for width in (320, 400, 1200))  # fmt: skip
    measured = (
        "<script>onload = () => document.title = [...document.querySelectorAll('iframe')].map("
        "f => f.contentDocument.documentElement.scrollWidth + '/' + f.clientWidth).join(' ')"
        "</script>"
    )
    (tmp_path / "frames.html").write_text(f"<!doctype html><title></title>{frames}{measured}")
    found = chromium(tmp_path, "--dump-dom", "--virtual-time-budget=5000",
                     f"file://{tmp_path}/frames.html")  # fmt: skip
    sizes = re.search("<title>(.*?)</title>", found)[1].split()
    assert len(sizes) == 6
    for size in sizes:
        wide, room = map(int, size.split("/"))
        assert wide <= room, sizes
