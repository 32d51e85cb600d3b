"""Loaders on small files in the published formats, whole and broken."""

import gzip
import os
import pickle

import numpy as np
import pytest

from jaxpriv import datasets


def idx(array):
    code = {"uint8": 8, "int32": 12, "float64": 14}[array.dtype.name]
    entries = array.astype(array.dtype.newbyteorder(">"))
    return (
        bytes([0, 0, code, array.ndim]) + np.array(array.shape, ">i4").tobytes() + entries.tobytes()
    )


def write_mnist(folder, compressed, n=6):
    random = np.random.default_rng(0)
    data = {}
    for part in ("train", "t10k"):
        images = random.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        labels = random.integers(0, 10, n, dtype=np.uint8)
        for name, array in ((f"{part}-images-idx3-ubyte", images),
                            (f"{part}-labels-idx1-ubyte", labels)):
            if compressed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
            else:
                (folder / name).write_bytes(idx(array))
        data[part] = images, labels
    return data


@pytest.mark.parametrize("compressed", [False, True])
def test_fashion_mnist(tmp_path, compressed):
    data = write_mnist(tmp_path, compressed)
    got = datasets.fashion_mnist(tmp_path)
    np.testing.assert_allclose(got.x[..., 0], data["train"][0] / 255, rtol=1e-7)
    np.testing.assert_array_equal(got.test_y, data["t10k"][1])
    assert got.x.dtype == np.float32
    assert got.x.shape == (6, 28, 28, 1)
    assert got.x.max() <= 1


@pytest.mark.parametrize(
    "array", [np.arange(6, dtype=np.int32).reshape(2, 3) - 3, np.linspace(-1, 1, 4)]
)
def test_idx_types(tmp_path, array):
    (tmp_path / "a").write_bytes(idx(array))
    np.testing.assert_array_equal(datasets.read_idx(tmp_path / "a"), array)


def test_broken_idx(tmp_path):
    write_mnist(tmp_path, False)
    short = idx(np.zeros(5, np.uint8))[:-1]
    for content, said in ((short, "do not fit"), (b"\0\0\x08\x03\0\0", "do not fit"),
                          (b"PK", "not an IDX"), (idx(np.zeros(3, np.uint8)), "labels")):
        (tmp_path / "train-images-idx3-ubyte").write_bytes(content)
        with pytest.raises(ValueError, match=said):
            datasets.fashion_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    with pytest.raises(
        ValueError, match=r"no file train-images-idx3-ubyte or train-images-idx3-ubyte\.gz"
    ):
        datasets.fashion_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match="not a gzip"):
        datasets.fashion_mnist(tmp_path)


def write_cifar(folder, n=4):
    random = np.random.default_rng(0)
    data = {}
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        images = random.integers(0, 256, (n, 3072), dtype=np.uint8)
        labels = random.integers(0, 10, n).tolist()
        with open(folder / name, "wb") as file:
            pickle.dump(
                {b"data": images, b"labels": labels, b"batch_label": b"1 of 5"}, file, protocol=2
            )
        data[name] = images, labels
    return data


def test_cifar10(tmp_path):
    data = write_cifar(tmp_path)
    got = datasets.cifar10(tmp_path)
    assert got.x.shape == (8, 32, 32, 3)
    red = data["data_batch_2"][0][1, :1024].reshape(32, 32) / 255
    np.testing.assert_allclose(got.x[5, ..., 0], red, rtol=1e-7)
    np.testing.assert_array_equal(got.y, data["data_batch_1"][1] + data["data_batch_2"][1])
    np.testing.assert_array_equal(got.test_y, data["test_batch"][1])


class Evil:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_a_pickle_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cifar(tmp_path)
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(
        ValueError, match=r"test_batch is not a CIFAR-10 batch: it asks for posix\.mkdir"
    ):
        datasets.cifar10(tmp_path)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("content", [
    b"", b"garbage", pickle.dumps([1, 2]), pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}),
    pickle.dumps({b"data": np.zeros((2, 5), np.uint8), b"labels": [0, 1]})])
def test_broken_cifar(tmp_path, content):
    write_cifar(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(ValueError, match="data_batch_1 is not a CIFAR-10 batch"):
        datasets.cifar10(tmp_path)


ROWS = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
    "Male, 2174, 0, 40, United-States, <=50K\n"
    "50, ?, 83311, HS-grad, 9, Married-civ-spouse, ?, Husband, Black, "
    "Female, 0, 1902, 13, ?, >50K\n"
)


def write_adult(folder, rows=ROWS):
    (folder / "adult.data").write_text(rows + "\n")
    (folder / "adult.test").write_text("|1x3 Cross validator\n" + ROWS.replace("K\n", "K.\n"))


def test_adult(tmp_path):
    write_adult(tmp_path)
    got = datasets.adult(tmp_path)
    assert got.x.shape == (2, 105)
    np.testing.assert_array_equal(got.y, [0, 1])
    np.testing.assert_array_equal(got.test_x, got.x)
    np.testing.assert_array_equal(got.test_y, got.y)
    assert got.x[0, 0] == np.float32(0.39)
    np.testing.assert_array_equal(np.sum(got.x == 1, 1), [8, 5])  # known categories, one entry each
    assert 0 <= got.x.min() <= got.x.max() <= 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("39,", "young,", "line 1: age = 'young'"),
     ("State-gov", "state", "line 1: workclass = 'state'"),
     (">50K", "50K", "line 2: income = '50K'"), ("39, ", "", "line 1: 14 fields"),
     (ROWS, "", "no records")],
)
def test_broken_adult(tmp_path, old, new, said):
    write_adult(tmp_path, ROWS.replace(old, new))
    with pytest.raises(ValueError, match=said):
        datasets.adult(tmp_path)


def test_scikit_learn():
    digits, diabetes = datasets.digits(), datasets.diabetes()
    assert len(digits.x) + len(digits.test_x) == 1797
    assert set(digits.y) == set(range(10))
    assert len(diabetes.x) + len(diabetes.test_x) == 442
    assert abs(diabetes.y.mean() - 0.5) < 0.05
