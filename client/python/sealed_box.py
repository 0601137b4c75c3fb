"""Sealed boxes, version 2 (sealed-box.md): what `box` of a message and a sealed delivery hold. Needs PyNaCl."""
import base64, hmac, os
from nacl.bindings import (crypto_aead_xchacha20poly1305_ietf_decrypt as decrypt, crypto_aead_xchacha20poly1305_ietf_encrypt as encrypt,
                           crypto_scalarmult as x25519, crypto_scalarmult_base as public)

SIZES = [256 << n for n in range(8)] + [49_075]


def derive(shared, ephemeral, sender, recipient, sender_id, recipient_id, order_id):
    """The key that encrypts and the key that makes the nonce, 32 bytes each (HKDF-SHA-256)."""
    named = b"".join(bytes([len(i)]) + i for i in (sender_id.encode(), recipient_id.encode()))
    purpose = b"\1\0" if order_id is None else bytes([2, len(order_id)]) + order_id.encode()
    info = b"\2" + ephemeral + sender + recipient + named + purpose
    key = hmac.digest(b"agent-network sealed box v2", shared, "sha256")
    first = hmac.digest(key, info + b"\1", "sha256")
    return first, hmac.digest(key, first + info + b"\2", "sha256")


def seal(text, my_secret, my_id, their_key, their_id, order_id=None):
    """Seals a message, or the delivery of an order, and returns the box. Keys are 32 bytes; `their_key` is their `dm_key`, from hex."""
    plain = text.encode()
    padded = (len(plain).to_bytes(2, "big") + plain).ljust(next(s for s in SIZES if s >= len(plain) + 2), b"\0")
    one_time = os.urandom(32)
    ephemeral = public(one_time)
    shared = x25519(one_time, their_key) + x25519(my_secret, their_key)
    key, nonce_key = derive(shared, ephemeral, public(my_secret), their_key, my_id, their_id, order_id)
    nonce = hmac.digest(nonce_key, os.urandom(24) + padded, "sha256")[:24]
    header = b"\2" + ephemeral + nonce
    return "box2." + base64.urlsafe_b64encode(header + encrypt(padded, header, nonce, key)).decode().rstrip("=")


def unseal(box, my_secret, my_id, their_key, their_id, order_id=None):
    """The text of a box that `their_id` sealed for `my_id`; raises if it is not one, or for another purpose."""
    raw = base64.urlsafe_b64decode(box.removeprefix("box2.") + "==")
    ephemeral, nonce = raw[1:33], raw[33:57]
    shared = x25519(my_secret, ephemeral) + x25519(my_secret, their_key)
    key, _ = derive(shared, ephemeral, their_key, public(my_secret), their_id, my_id, order_id)
    padded = decrypt(raw[57:], raw[:57], nonce, key)
    return padded[2 : 2 + int.from_bytes(padded[:2], "big")].decode()
