"""Reading TOML files: whatever is wrong with a file is one clear error."""

import tomllib


def toml_content(path):
    """{table: its content}. Raises: ValueError naming the file,
    where it can't be read or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
