"""The oldest versions that pyproject.toml admits, of what the library needs and of the extras
`demo`, `plots` and `completion`, as constraints for pip.
"""

import re
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
lines = list(project["dependencies"])
for extra in ("demo", "plots", "completion"):
    lines += project["optional-dependencies"][extra]
for line in lines:
    if not line.startswith("jaxpriv["):
        name, version = re.fullmatch(r"([\w.-]+)>=([\w.]+)", line).groups()
        print(f"{name}=={version}")
