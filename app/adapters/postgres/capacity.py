"""The connections that the server admits to this login, and how many of them are in use."""

from dataclasses import dataclass

from app.adapters.postgres.engine import PostgresEngine

# The statistics count connections of all logins and databases; pg_stat_activity would show an ordinary one less.
ROOM = """
select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0) as server,
       (select sum(numbackends) from pg_stat_database)::int as of_server,
       d.datconnlimit as database,
       (select s.numbackends from pg_stat_database s where s.datid = d.oid) as of_database,
       r.rolconnlimit as role,
       (select count(*) from pg_stat_activity a where a.usesysid = r.oid)::int as of_role
from pg_database d cross join pg_roles r
where d.datname = current_database() and r.rolname = current_user
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRoom:
    """The narrowest limit: of the server, of the database, or of the login."""

    limit: int
    used: int
    setting: str
    """The limit's name, to be raised."""

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


async def connection_room(engine: PostgresEngine) -> ConnectionRoom:
    """Two limits may be equally high; then the one that has less left counts."""
    (row,) = await engine.call(ROOM)
    rooms = [ConnectionRoom(limit=row["server"], used=row["of_server"], setting="max_connections")]
    if row["database"] >= 0:
        own = ConnectionRoom(limit=row["database"], used=row["of_database"], setting="the database's CONNECTION LIMIT")
        rooms.append(own)
    if row["role"] >= 0:
        rooms.append(ConnectionRoom(limit=row["role"], used=row["of_role"], setting="the login's CONNECTION LIMIT"))
    return min(rooms, key=lambda room: (room.limit, room.free))
