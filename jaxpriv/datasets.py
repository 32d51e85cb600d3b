"""Data sets from local files, and two that come with scikit-learn:
nothing is downloaded, nothing is scaled by the data.

Scales and categories are constants of the published descriptions:
a mean or a median of the records would be a release.
"""

import csv
import gzip
import pickle
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxpriv._types import FilePath


class Dataset(NamedTuple):
    """Records x, `Float[numpy.ndarray, "n ..."]` in float32, and labels y,
    `Int[numpy.ndarray, "n"]`: to train, to test.
    """

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def read_users(path: FilePath) -> np.ndarray:
    """Whose record each is, from a text file: one line for each training record, in the loader's
    order, with a name or number of its user.

    Returns: texts, `Str[numpy.ndarray, "n"]`, without the blanks around them.
    Raises: ValueError for a file that can't be read or is no text, and lines that name nobody.

        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w") as file:
        ...     _ = file.write("ann\\nbob\\nann\\n")
        ...     _ = file.flush()
        ...     print(read_users(file.name))
        ['ann' 'bob' 'ann']
    """
    try:
        lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text: {error}") from None
    if not lines:
        raise ValueError(f"{path} names no users")
    if "" in lines:
        raise ValueError(f"{path}, line {lines.index('') + 1}: no user; accepted: one for a record")
    return np.array(lines)


def _found(folder, *names):
    """The first of these files that is there."""
    folder = Path(folder)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise ValueError(f"{folder} has no file {' or '.join(names)}")


def read_idx(path: FilePath) -> np.ndarray:
    """An array from an IDX file, gzipped or not: magic number 0, 0, type, dimensions, then sizes
    and entries, big-endian.

    Raises: ValueError for another format, and for a file whose length is not the one that it tells.
    Source: LeCun, Cortes, Burges, *The MNIST database*.
    """
    path = Path(path)
    try:
        content = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    except (gzip.BadGzipFile, EOFError):
        raise ValueError(f"{path} is not a gzip file") from None
    types = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in types:
        raise ValueError(f"{path} is not an IDX file")
    dtype, sizes = np.dtype(types[content[2]]), 4 + 4 * content[3]
    shape = np.frombuffer(content[4:sizes], ">i4") if len(content) >= sizes else np.array([-1])
    if len(content) != sizes + dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ValueError(
            f"{path} has {len(content)} bytes, which do not fit the sizes that it tells"
        )
    return np.frombuffer(content[sizes:], dtype).reshape(shape)


def fashion_mnist(folder: FilePath) -> Dataset:
    """Fashion-MNIST (or MNIST) from its four IDX files, gzipped or not: x in [0, 1] of shape
    (n, 28, 28, 1), ten classes.

    Args:
        folder: with train-images-idx3-ubyte, train-labels-idx1-ubyte,
            t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte.

    Raises: ValueError naming the file that is missing or broken.
        Source: Xiao, Rasul, Vollgraf 2017.
    """
    parts = []
    for part in ("train", "t10k"):
        names = [f"{part}-{kind}" for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
        images, labels = (read_idx(_found(folder, name, name + ".gz")) for name in names)
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{folder}: {part} images have shape {images.shape}, labels {labels.shape}; "
                "accepted: (n, height, width), (n,)"
            )
        parts += [(images[..., None] / 255).astype(np.float32), labels.astype(np.int32)]
    return Dataset(*parts)


class _ArraysOnly(pickle.Unpickler):
    """Unpickles NumPy arrays and what they are made of; a pickle may otherwise run any code."""

    _accepted = {("numpy.core.multiarray", "_reconstruct"),
                 ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"),
                 ("numpy", "dtype"), ("_codecs", "encode")}

    def find_class(self, module, name):
        if (module, name) not in self._accepted:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _cifar_batch(path):
    try:
        with open(path, "rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        images, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
        if images.dtype != np.uint8 or images.shape != (len(labels), 3072):
            raise ValueError(f"data of shape {images.shape} for {len(labels)} labels")
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, IndexError,
            AttributeError) as error:
        raise ValueError(f"{path} is not a CIFAR-10 batch: {error}") from None
    return (images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1) / 255).astype(
        np.float32
    ), labels.astype(np.int32)


def cifar10(folder: FilePath) -> Dataset:
    """CIFAR-10 from its "python version": x in [0, 1] of shape (n, 32, 32, 3), ten classes.

    Args:
        folder: with data_batch_1 ... data_batch_5 (those that are there,
            at least the first) and test_batch.

    Raises: ValueError naming the file that is missing or broken,
        or that would unpickle to anything but arrays.
    Source: Krizhevsky 2009.
    """
    first = _found(folder, "data_batch_1")
    others = [path for i in range(2, 6) if (path := Path(folder) / f"data_batch_{i}").is_file()]
    batches = [_cifar_batch(path) for path in (first, *others)]
    test = _cifar_batch(_found(folder, "test_batch"))
    return Dataset(*(np.concatenate(part) for part in zip(*batches)), *test)


# name, and the divisor of a number or the values of a category (adult.names, UCI)
_ADULT: tuple[tuple[str, float | str], ...] = (
    ("age", 100.0),
    ("workclass", "Private,Self-emp-not-inc,Self-emp-inc,Federal-gov,Local-gov,State-gov,"
                  "Without-pay,Never-worked"),
    ("fnlwgt", 1.5e6),
    ("education", "Bachelors,Some-college,11th,HS-grad,Prof-school,Assoc-acdm,Assoc-voc,9th,"
                  "7th-8th,12th,Masters,1st-4th,10th,Doctorate,5th-6th,Preschool"),
    ("education-num", 16.0),
    ("marital-status", "Married-civ-spouse,Divorced,Never-married,Separated,Widowed,"
                       "Married-spouse-absent,Married-AF-spouse"),
    ("occupation", "Tech-support,Craft-repair,Other-service,Sales,Exec-managerial,Prof-specialty,"
                   "Handlers-cleaners,Machine-op-inspct,Adm-clerical,Farming-fishing,"
                   "Transport-moving,Priv-house-serv,Protective-serv,Armed-Forces"),
    ("relationship", "Wife,Own-child,Husband,Not-in-family,Other-relative,Unmarried"),
    ("race", "White,Asian-Pac-Islander,Amer-Indian-Eskimo,Other,Black"),
    ("sex", "Female,Male"),
    ("capital-gain", 1e5),
    ("capital-loss", 5e3),
    ("hours-per-week", 100.0),
    ("native-country", "United-States,Cambodia,England,Puerto-Rico,Canada,Germany,"
                       "Outlying-US(Guam-USVI-etc),India,Japan,Greece,South,China,Cuba,Iran,"
                       "Honduras,Philippines,Italy,Poland,Jamaica,Vietnam,Mexico,Portugal,"
                       "Ireland,France,Dominican-Republic,Laos,Ecuador,Taiwan,Haiti,Columbia,"
                       "Hungary,Guatemala,Nicaragua,Scotland,Thailand,Yugoslavia,El-Salvador,"
                       "Trinadad&Tobago,Peru,Hong,Holand-Netherlands"),
)


def _adult_rows(path):
    x, y = [], []
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.reader(file, skipinitialspace=True)
        for fields in reader:
            if not fields or fields[0].startswith("|"):  # the test file begins with a comment
                continue
            where = f"{path}, line {reader.line_num}"
            if len(fields) != len(_ADULT) + 1:
                raise ValueError(f"{where}: {len(fields)} fields; accepted: {len(_ADULT) + 1}")
            x.append([number for field, column in zip(fields, _ADULT)
                      for number in _adult_field(field, *column, where)])
            label = fields[-1].rstrip(".")
            if label not in ("<=50K", ">50K"):
                raise ValueError(f"{where}: income = {label!r}; accepted: <=50K, >50K")
            y.append(label == ">50K")
    if not x:
        raise ValueError(f"{path} has no records")
    return np.array(x, np.float32), np.array(y, np.int32)


def _adult_field(field, name, kind, where):
    """A number over its divisor, or one entry per category,
    all zero for the "?" of an unknown value.
    """
    if isinstance(kind, float):
        try:
            return [float(field) / kind]
        except ValueError:
            raise ValueError(f"{where}: {name} = {field!r} is not a number") from None
    values = kind.split(",")
    if field not in values and field != "?":
        raise ValueError(f"{where}: {name} = {field!r}; accepted: ?, {', '.join(values)}")
    return [float(field == value) for value in values]


def adult(folder: FilePath) -> Dataset:
    """Adult (census income) from its CSV files: x of shape (n, 105),
    y whether the income exceeds 50,000 dollars.

    Numbers over fixed divisors, one entry per category of the published description,
    zeros for an unknown one.

    Args:
        folder: with adult.data and adult.test.

    Raises: ValueError naming file, line and field. Source: Kohavi 1996; UCI.
    """
    return Dataset(
        *_adult_rows(_found(folder, "adult.data")), *_adult_rows(_found(folder, "adult.test"))
    )


def _sklearn():
    """Of scikit-learn only two data sets are used, as its users have them already:
    it is in the `demo` extra.
    """
    try:
        import sklearn.datasets
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "this data set comes with scikit-learn: pip install 'jaxpriv[demo]'"
        ) from None
    return sklearn.datasets


def _split(x, y):
    """Every fifth record is for testing:
    no random choice, which would be one more thing to tell.
    """
    test = np.arange(len(x)) % 5 == 4
    return Dataset(x[~test], y[~test], x[test], y[test])


def digits() -> Dataset:
    """Scikit-learn's handwritten digits: x in [0, 1] of shape (1438, 8, 8, 1), ten classes.

    Raises: ModuleNotFoundError without scikit-learn (the `demo` extra).

        >>> data = digits()
        >>> data.x.shape, data.test_x.shape, float(data.x.max())
        ((1438, 8, 8, 1), (359, 8, 8, 1), 1.0)
    """
    images, labels = _sklearn().load_digits(return_X_y=True)
    return _split((images.reshape(-1, 8, 8, 1) / 16).astype(np.float32), labels.astype(np.int32))


def diabetes() -> Dataset:
    """Scikit-learn's diabetes records as two classes: x of shape (354, 10), y whether the
    progression exceeds 140.

    Scikit-learn has divided every column by its own spread; times 20, entries lie in about [-3, 4].

    Raises: ModuleNotFoundError without scikit-learn (the `demo` extra).

        >>> data = diabetes()
        >>> data.x.shape, sorted(set(data.y.tolist()))
        ((354, 10), [0, 1])
    """
    features, progression = _sklearn().load_diabetes(return_X_y=True)
    return _split((features * 20).astype(np.float32), (progression > 140).astype(np.int32))
