"""Readers and their topics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Reader:
    """Who gets letters on some topics."""

    address: str
    topics: list[str]


def subscribe(address: str, topics: list[str] = ["news"]) -> Reader:
    """A new reader, of the news if of nothing else."""
    return Reader(address, topics)


def upgrade(reader: Reader) -> None:
    """Let a reader have the offers too."""
    reader.topics.append("offers")
