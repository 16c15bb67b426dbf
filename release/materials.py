"""The software bill of materials of a wheel, as CycloneDX JSON, from the wheel's own metadata.

The wheel holds no code of others (docs/licences.md), so the materials are what it asks to be installed: the core as
required, extras as optional, each with the range that was asked for. Which versions those become is known to whoever
installs. There is no time and no random serial number, so that one wheel has one list, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def metadata(wheel: Path) -> Message:
    """The METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return HeaderParser().parsestr(archive.read(name).decode("utf-8"))


def requirements(told: Message) -> list[Requirement]:
    """What is asked for, but for extras that name the package itself."""
    asked = [Requirement(line) for line in told.get_all("Requires-Dist", [])]
    return [one for one in asked if canonicalize_name(one.name) != told["Name"]]


def _product(told: Message, wheel: Path) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=told["Name"],
        version=told["Version"],
        bom_ref=told["Name"],
        description=told["Summary"],
        licenses=[LicenseFactory().make_from_string(told["License-Expression"])],
        purl=PackageURL("pypi", name=told["Name"], version=told["Version"]),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(wheel.read_bytes()).hexdigest())],
    )


def _material(name: str, asked: list[Requirement]) -> Component:
    is_core = any(one.marker is None or "extra" not in str(one.marker) for one in asked)
    ranges = sorted({f"{one.specifier}; {one.marker}" if one.marker else str(one.specifier) for one in asked})
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        bom_ref=name,
        scope=ComponentScope.REQUIRED if is_core else ComponentScope.OPTIONAL,
        purl=PackageURL("pypi", name=name),
        properties=[Property(name="armillary:requires", value=one) for one in ranges],
    )


def bill(wheel: Path) -> str:
    """The list as JSON, without time and serial number; an error where the schema does not hold."""
    told = metadata(wheel)
    product = _product(told, wheel)
    by_name: dict[str, list[Requirement]] = {}
    for one in requirements(told):
        by_name.setdefault(canonicalize_name(one.name), []).append(one)
    materials = [_material(name, asked) for name, asked in sorted(by_name.items())]
    bom = Bom(components=materials)
    bom.metadata.component = product
    bom.register_dependency(product, materials)
    made = json.loads(JsonV1Dot6(bom).output_as_string())
    del made["serialNumber"], made["metadata"]["timestamp"]
    made["metadata"].pop("tools", None)
    text = json.dumps(made, indent=2, sort_keys=True) + "\n"
    faults = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if faults is not None:
        raise ValueError(f"The bill of materials does not hold to CycloneDX 1.6: {faults}")
    return text


def write(wheel: Path, folder: Path) -> Path:
    """Write the list beside the wheel."""
    told = metadata(wheel)
    path = folder / f"{told['Name']}-{told['Version']}.cdx.json"
    path.write_text(bill(wheel), encoding="utf-8")
    return path
