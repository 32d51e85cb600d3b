"""`jaxpriv audit` as its user meets it: files in, verdicts and pictures out, clear refusals."""

import json
import re

import numpy as np
import pytest

from jaxpriv import auditing, cli, worst_case
from jaxpriv.report.audit import claims_from, read_scores
from tests.auditing.test_errors import gaussian_scores
from tests.command import ROOT, run


def write(path, scores, member):
    if path.suffix == ".npz":
        np.savez(path, score=scores, member=member)
    else:
        rows = (f"{score!r},{int(present)}\n" for score, present in zip(scores.tolist(), member))
        path.write_text("score,member\n" + "".join(rows))
    return path


@pytest.mark.slow
def test_prints_writes_draws_and_judges(environment, tmp_path):
    scores, member = gaussian_scores(2.0, 20_000)
    path = write(tmp_path / "scores.npz", scores, member)
    found = auditing.audit(scores, member)
    done = run(environment, "audit", path, "--mu", 1, "--json", "--out", tmp_path / "out")
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "out" / "audit.json").read_text())
    assert report["mu_lower"] == pytest.approx(found.mu())
    assert report["epsilon_lower"] == pytest.approx(found.epsilon(1e-5))
    assert report["claims"][0]["violated"]
    assert report["tpr_at_fpr"]["0.01"]["resolved"]
    picture = (tmp_path / "out" / "audit.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000
    done = run(environment, "audit", path, "--mu", 2.05)
    assert done.returncode == 0, done.stderr
    assert "not refuted" in done.stdout
    assert "An attack that finds nothing proves no privacy." in " ".join(done.stdout.split())


@pytest.mark.slow
def test_claim_of_a_file(environment, tmp_path):
    path = write(tmp_path / "scores.csv", *gaussian_scores(0.5, 4000))
    done = run(
        environment, "audit", path, "--claim", ROOT / "examples" / "diabetes_means.toml", "--json"
    )
    # the attack is stronger than the relaxed adversaries, not than the worst case
    assert done.returncode == 3, done.stderr
    claims = json.loads(done.stdout)["claims"]
    assert [claim["violated"] for claim in claims] == [False, True, True]
    assert [claim["claim"] for claim in claims] == [
        "claimed, worst case",
        "claimed, relaxed, dim 1",
        "claimed, relaxed, dim 10",
    ]


@pytest.mark.slow
def test_claim_of_flags(tmp_path, capsys):
    """The same mechanism by any description is the same claim."""
    path = write(tmp_path / "scores.csv", *gaussian_scores(1.5, 4000))
    (tmp_path / "claim.toml").write_text(
        "[dp_sgd]\ndataset_size = 1000\nbatch_size = 10\nepochs = 1\nnoise_multiplier = 1.0\n"
    )
    arguments = [["--claim", tmp_path / "claim.toml"],
                 ["--dataset-size", 1000, "--batch-size", 10, "--epochs", 1,
                  "--noise-multiplier", 1],
                 ["--mechanism", "subsampled_gaussian", "--with", "noise_multiplier=1",
                  "sampling_rate=0.01", "steps=100"]]

    def audited(*given):
        code = cli.main(["audit", *map(str, (path, *given))])
        return code, *capsys.readouterr()

    found = [audited(*given, "--json") for given in arguments]
    assert [code for code, _, _ in found] == [3, 3, 3], found[0]
    first, *others = [json.loads(told)["claims"][0] for _, told, _ in found]
    assert first["violated"]
    for claim in others:
        assert claim["allowed"] == pytest.approx(first["allowed"], rel=1e-9)
    assert audited("--noise-multiplier", 1, "--mu", 1)[0] == 2
    assert "give one claim: a mechanism, --mu or --epsilon" in audited(*arguments[2], "--mu", 1)[2]


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_files_are_read_back(tmp_path, suffix):
    scores, member = gaussian_scores(1.0, 50)
    got = read_scores(write(tmp_path / f"scores{suffix}", scores, member))
    np.testing.assert_array_equal(got[0], scores)
    np.testing.assert_array_equal(got[1], member)


@pytest.mark.parametrize(
    "text",
    ["\ufeffscore,member\n1.5,1\n-2,0\n", "score;member\n1.5;1\n-2;0\n",
     "Score, Member \r\n1.5, 1\r\n-2, 0\r\n", "SCORE\tMEMBER\n1.5\tTrue\n-2\tFalse\n",
     "\n\nid;member;score\na,b;1;1.5\n\n;0;-2\n\n",
     "\ufeff\"score\";\"member\"\n\"1.5\";\"true\"\n-2;false\n"],
)
def test_csv_as_spreadsheets_write_it(tmp_path, text):
    """Byte order mark, semicolons, tabs, capitals, spaces, quotes, other columns, empty lines."""
    (tmp_path / "scores.CSV").write_bytes(text.encode())
    scores, member = read_scores(tmp_path / "scores.CSV")
    assert scores.tolist() == [1.5, -2.0]
    assert member.tolist() == [True, False]


def test_an_audit_prints_as_a_table():
    """Lower bounds rounded down, limits outward;
    what the object says and what it prints is the same.
    """
    found = auditing.audit(*gaussian_scores(2.0, 20_000), 0.999)
    text = str(found)
    assert text.isascii()
    assert "array" not in text
    assert len({len(line) for line in text.splitlines()[1:-1]}) == 1
    assert text.splitlines()[0] == f"Audit of {found.members} members and {found.others} others"
    assert "99.9% confidence" in text
    rows = dict(re.match(r"(.*?)  +(.*)", line).groups() for line in text.splitlines()[2:-2])
    mu, epsilon = (float(rows[name].removeprefix(">= "))
                   for name in ("mu (Gaussian differential privacy)", "epsilon at delta = 1e-05"))
    assert 0.999 * found.mu() < mu <= found.mu()
    assert 0.999 * found.epsilon(1e-5) < epsilon <= found.epsilon(1e-5)
    low, high = json.loads(rows["attack's TPR at FPR 0.1"].removeprefix("in "))
    assert low <= found.band(0.1)[0]
    assert high >= found.band(0.1)[1]


def test_claims():
    (name, curve), = claims_from(epsilon=1.0, delta=1e-3)[0]
    assert name == "claimed, ε = 1 at δ = 0.001"
    assert curve.power(0.01) == pytest.approx(np.e * 0.01 + 1e-3)
    (_, curve), = claims_from(mu=1.5)[0]
    assert curve.power(0.01) == pytest.approx(float(worst_case.gaussian(1.5).power(0.01)))
    assert claims_from() == ([], 1e-5)


CSV = {"nan": "score,member\n1,0\nnan,1\n2,0\n3,1\n", "text": "score,member\nhigh,1\n",
       "label": "score,member\n1,yes\n", "columns": "value,member\n1,1\n", "empty": "",
       "one side": "score,member\n1,1\n2,1\n", "short": "score,member\n1\n",
       "decimal commas": "score;member\n0,53;1\n", "commas only": "score,member\n0,53,1\n",
       "twice": "score,Score,member\n", "utf-16": "score,member\n1,1\n".encode("utf-16"),
       "nul": b"score,member\n1\x00,1\n"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nan", "NaN at 1"),
        ("text", "line 2: score = 'high'"),
        ("label", "line 2: member = 'yes'"),
        ("columns", "no column 'score'"),
        ("empty", "no column 'score', but none"),
        ("one side", "0 non-members"),
        ("short", "line 2: 1 values for 2 columns"),
        ("twice", "2 columns 'score'"),
        ("utf-16", "is not UTF-8 text"),
        ("decimal commas",
         "line 2: score = '0,53' is not a number; expected a decimal point, as 0.5"),
        ("commas only", "line 2: 3 values for 2 columns; numbers need a decimal point, as 0.5"),
        ("nul", "scores.csv"),
    ],
)
def test_bad_files(tmp_path, capsys, name, said):
    path = tmp_path / "scores.csv"
    path.write_bytes(CSV[name] if isinstance(CSV[name], bytes) else CSV[name].encode())
    assert cli.main(["audit", str(path)]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert not told.out


@pytest.mark.parametrize(
    ("flags", "said"),
    [(["missing.csv"], "No such file"), (["README.md"], "neither .npz nor .csv"),
     (["missing.npz"], "No such file"),
     (["scores.csv", "--mu", "1", "--epsilon", "1"], "one claim"),
     (["scores.csv", "--mu", "-1"], "mu = -1"),
     (["scores.csv", "--epsilon", "1", "--delta", "2"], "delta = 2"),
     (["scores.csv", "--confidence", "95"], "confidence = 95"),
     (["scores.csv", "--delta", "0"], "delta = 0"),
     (["scores.csv", "--claim", "nothing.toml"], "cannot read nothing.toml"),
     (["scores.csv", "--mue", "1"], "--mue"), ([], "scores")],
)
def test_bad_flags(tmp_path, capsys, monkeypatch, flags, said):
    write(tmp_path / "scores.csv", *gaussian_scores(1.0, 50))
    (tmp_path / "README.md").write_text("no scores")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["audit", *flags]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1


def test_not_a_zip(tmp_path, capsys):
    (tmp_path / "scores.npz").write_bytes(b"not a zip file at all")
    assert cli.main(["audit", str(tmp_path / "scores.npz")]) == 2
    assert "npz" in capsys.readouterr().err
    np.savez(tmp_path / "scores.npz", value=np.ones(3))
    assert cli.main(["audit", str(tmp_path / "scores.npz")]) == 2
    assert "no array 'score', but value" in capsys.readouterr().err
