"""Builds the wheel `countersign-server`, which carries the binary.

usage: build_wheel.py BINARY VERSION FOLDER

A wheel is a zip file with a list of hashes, so no build tool is needed. The platform tag is the one that the binary
really needs: `manylinux_2_34` if it uses symbols of glibc 2.34, for example. A binary that needs other libraries than
those that every Linux has is refused.
"""

import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import zipfile

# Libraries that PEP 600 lets a wheel take from the system.
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
# A fixed time, so that the same binary gives the same wheel.
TIME = (2026, 1, 1, 0, 0, 0)

METADATA = """\
Metadata-Version: 2.4
Name: countersign-server
Version: {version}
Summary: A person's signature between an AI agent's wish and the world: the countersign service and command line
License-Expression: MIT OR Apache-2.0
Requires-Python: >=3.10
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Classifier: Topic :: Security
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: countersign packaging
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""

ENTRY_POINTS = """\
[console_scripts]
countersign-server = countersign_server:main
"""


def main():
    binary, version, folder = sys.argv[1:]
    platform = platform_tag(binary)
    name = f"countersign_server-{version}"
    info = f"{name}.dist-info"
    files = {
        "countersign_server/__init__.py": (HERE / "countersign_server.py").read_bytes(),
        "countersign_server/__main__.py": b"from countersign_server import main\n\nmain()\n",
        f"{name}.data/scripts/countersign": pathlib.Path(binary).read_bytes(),
        f"{info}/METADATA": METADATA.format(version=version, readme=(HERE / "README.md").read_text()).encode(),
        f"{info}/WHEEL": WHEEL.format(platform=platform).encode(),
        f"{info}/entry_points.txt": ENTRY_POINTS.encode(),
        f"{info}/licenses/LICENSE-MIT": (ROOT / "LICENSE-MIT").read_bytes(),
        f"{info}/licenses/LICENSE-APACHE": (ROOT / "LICENSE-APACHE").read_bytes(),
    }
    path = pathlib.Path(folder) / f"{name}-py3-none-{platform}.whl"
    write(path, files, f"{info}/RECORD")
    print(path)


def platform_tag(binary):
    """Returns the platform tag for a binary, from the glibc symbols and libraries that it needs."""
    needed = set(re.findall(r"NEEDED\s+(\S+)", objdump("-p", binary)))
    other = sorted(name for name in needed - SYSTEM_LIBRARIES if not name.startswith("ld-linux"))
    if other:
        sys.exit(f"error: {binary} needs {', '.join(other)}, which not every Linux has")
    versions = [tuple(map(int, version)) for version in re.findall(r"GLIBC_(\d+)\.(\d+)", objdump("-T", binary))]
    if not versions:
        sys.exit(f"error: {binary} is not linked to glibc")
    major, minor = max(versions)
    machine = {"x86-64": "x86_64", "aarch64": "aarch64"}
    form = re.search(r"file format elf64-(?:little)?(\S+)", objdump("-f", binary)).group(1)
    if form not in machine:
        sys.exit(f"error: there are no wheels for {form}")
    return f"manylinux_{major}_{minor}_{machine[form]}"


def objdump(option, binary):
    return subprocess.run(["objdump", option, binary], check=True, capture_output=True, text=True).stdout


def write(path, files, record_name):
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            add(wheel, name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        record.append(f"{record_name},,\n")
        add(wheel, record_name, "".join(record).encode())


def add(wheel, name, data):
    entry = zipfile.ZipInfo(name, TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
    wheel.writestr(entry, data)


main()
