"""Fixtures of the two modules on Redis; the other modules have their own of the same names."""

from tests.support.redis_lane import admin, doorbell, lane, server

__all__ = ["admin", "doorbell", "lane", "server"]
