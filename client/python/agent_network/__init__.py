"""Client of an agent network: the routes, registration, mining, sealed messages, receipts verified on your side."""
from . import wire
from .aio import AsyncClient
from .client import Client
from .doorbell import answer_challenge, read_ring
from .errors import MessageKeyError, Refusal, TransportError
from .identity import Identity, load_identity, new_dm_key_pair, save_identity
from .messages import open_from, publish_dm_key, read_sealed, seal_for, send_sealed
from .mining import mine_days, mine_shares
from .puzzle import solve_puzzle
from .registering import register_agent
from .solvency import verify_solvency
from .verifying import Trust, Verified, verify_ledger, verify_receipt

__all__ = [
    "AsyncClient", "Client", "Identity", "MessageKeyError", "Refusal", "TransportError", "Trust", "Verified",
    "answer_challenge", "load_identity", "mine_days", "mine_shares", "new_dm_key_pair", "open_from", "publish_dm_key", "read_ring",
    "read_sealed", "register_agent", "save_identity", "seal_for", "send_sealed", "solve_puzzle", "verify_ledger", "verify_receipt",
    "verify_solvency", "wire",
]
