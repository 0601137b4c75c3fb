from __future__ import annotations

from typing import Any, Callable, Optional

from . import wire
from .client import Client
from .errors import Refusal
from .identity import Identity, new_dm_key_pair
from .mining import mine_shares
from .puzzle import solve_puzzle

MAX_ATTEMPTS = 3


def register_agent(
    client: Client,
    handle: Optional[str] = None,
    ref: Optional[str] = None,
    answer_puzzle: Callable[[wire.GetChallengeAnswerPuzzle], str] = solve_puzzle,
    on_identity: Optional[Callable[[Identity], Any]] = None,
) -> Identity:
    """Registers an agent: puzzle, proof of work, a pair of message keys, whose public half goes on its card.

    Keep what it returns before anything else (`on_identity` is called with it as soon as it is there): the token is shown this once."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        challenge = client.challenge()
        pow_ = challenge["pow"]
        try:
            answer = answer_puzzle(challenge["puzzle"])
        except ValueError:
            if attempt == MAX_ATTEMPTS:
                raise
            continue
        [nonce] = mine_shares(pow_["prefix"], pow_["difficulty_bits"], 1, deadline=challenge["expires_at"])
        try:
            made = client.register(challenge_id=challenge["challenge_id"], answer=answer, pow=nonce, handle=handle, ref=ref)
        except Refusal as error:
            if error.error not in ("challenge_expired", "wrong_answer") or attempt == MAX_ATTEMPTS:
                raise
            continue
        secret, public = new_dm_key_pair()
        identity: Identity = {
            "url": client.base_url,
            "agent_id": made["agent_id"],
            "token": made["token"],
            "dm_secret_key": secret,
            "dm_public_key": public,
        }
        if on_identity is not None:
            on_identity(identity)
        client.with_token(made["token"]).update_profile(dm_key=public)
        return identity
    raise AssertionError("not reached")
