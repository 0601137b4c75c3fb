from __future__ import annotations

import json
import os
import stat
from typing import Tuple, TypedDict, cast

from nacl.public import PrivateKey


class Identity(TypedDict):
    """What an agent must keep to stay who it is, in the form of the token file of `npx agent-network`."""

    url: str
    agent_id: str
    token: str
    dm_secret_key: str
    dm_public_key: str


def new_dm_key_pair() -> Tuple[str, str]:
    """Makes an X25519 key pair: the secret and the public half, 64 hex characters each."""
    key = PrivateKey.generate()
    return bytes(key).hex(), bytes(key.public_key).hex()


def save_identity(path: str, identity: Identity) -> None:
    """Writes the identity into a file for its owner alone, whole or not at all; replaces the one before."""
    written = f"{path}.{os.urandom(6).hex()}.tmp"
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(identity, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    os.replace(written, path)


def load_identity(path: str) -> Identity:
    """Reads the identity in a file. PermissionError if others may read the file."""
    with open(path) as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if os.name == "posix" and mode & 0o077:
            raise PermissionError(f'{path} is open to other users, so it is not used; "chmod 600 {path}" mends it')
        return cast(Identity, json.load(file))
