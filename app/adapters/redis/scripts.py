"""The queue's operations, each one script on the server, so that each is atomic.

A tenant's bells are a sorted set in the order of ringing. A job has one bell however often it is rung. `turns` is a
sorted set of the tenants that have bells, in the order of service: a tenant that was served goes to the end, and so
does one that gets its first bell. Delayed bells are in `later`, sorted by their time. `wake` is a list with one entry
while there are bells: callers wait for that entry and leave the bells to TAKE.

`count` is the number of bells in all tenants' sets. It may be wrong after the server has evicted a key, and is right
again once the last bell is taken.
"""

from dataclasses import dataclass

# Taking bells writes as well, and must be possible when the server's memory is full.
RELIEVES = "#!lua flags=allow-oom\n"

# A message without a tenant's name is kept under an empty name until it is taken and dropped. The name is cut out, not
# parsed: a wrong one costs a turn, and the message is refused where it is read.
SHARED = """
local turns, later, wake, count, bells = unpack(KEYS)

local function owner(message)
    return string.match(message, '"tenant_id": *"([%w_-]*)"') or ''
end

local function score(key, rank, default)
    return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] or default)
end

local function rouse()
    if redis.call('EXISTS', turns) == 1 and redis.call('EXISTS', wake) == 0 then
        redis.call('RPUSH', wake, '1')
    end
end
"""

# A score one above the last is the end of the line. No clock is used, because one that is set back would reorder the
# line. A ring always restores the tenant's turn as well: if the server has lost it, the tenant would never be served
# again.
LINE_UP = """
local function line_up(messages, capacity)
    local of, tenants = {}, {}
    for _, message in ipairs(messages) do
        local tenant = owner(message)
        if not of[tenant] then
            of[tenant] = {}
            tenants[#tenants + 1] = tenant
        end
        table.insert(of[tenant], message)
    end
    local total = tonumber(redis.call('GET', count) or 0)
    local before, turn = total, score(turns, -1, 0)
    for _, tenant in ipairs(tenants) do
        local key = bells .. tenant
        local held = redis.call('ZCARD', key)
        local place = held > 0 and score(key, -1, 0) or 0
        for _, message in ipairs(of[tenant]) do
            if held < capacity - total then
                place = place + 1
                local added = redis.call('ZADD', key, 'NX', place, message)
                held, total = held + added, total + added
            end
        end
        if held > 0 then
            turn = turn + 1
            redis.call('ZADD', turns, 'NX', turn, tenant)
        end
    end
    if total > before then
        redis.call('INCRBY', count, total - before)
    end
end
"""

# A job that is rung for later twice has one bell, due at the sooner time. Times are the server's. Beyond the capacity,
# the bells due last are cut off.
RING = (
    SHARED
    + LINE_UP
    + """
local capacity, delay = tonumber(ARGV[1]), tonumber(ARGV[2])
local messages = {}
for i = 3, #ARGV do
    messages[#messages + 1] = ARGV[i]
end
if delay > 0 then
    local time = redis.call('TIME')
    local due = time[1] * 1000 + math.floor(time[2] / 1000) + delay
    for _, message in ipairs(messages) do
        redis.call('ZADD', later, 'LT', due, message)
    end
    redis.call('ZREMRANGEBYRANK', later, capacity, -1)
else
    line_up(messages, capacity)
    rouse()
end
"""
)

# A bell that is taken is removed: it wakes one worker, and a worker that dies with it costs one sweep. Within an answer
# there is no order, so each tenant gets the same share of it. The rest goes to the tenants whose turn is next.
TAKE = (
    RELIEVES
    + SHARED
    + LINE_UP
    + """
local capacity, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGE', later, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
if #due > 0 then
    line_up(due, capacity)
    redis.call('ZREM', later, unpack(due))
end
local taken, turn, waiting = {}, score(turns, -1, 0), redis.call('ZCARD', turns)
while left > 0 and waiting > 0 do
    local share = math.max(1, math.floor(left / waiting))
    local served = redis.call('ZPOPMIN', turns, left)
    for i = 1, #served, 2 do
        local key = bells .. served[i]
        local popped = redis.call('ZPOPMIN', key, share)
        for j = 1, #popped, 2 do
            taken[#taken + 1] = popped[j]
        end
        left = left - #popped / 2
        if #popped / 2 == share and redis.call('EXISTS', key) == 1 then
            turn = turn + 1
            redis.call('ZADD', turns, turn, served[i])
        end
    end
    waiting = redis.call('ZCARD', turns)
end
if waiting == 0 then
    redis.call('DEL', wake, count)
else
    redis.call('DECRBY', count, #taken)
    rouse()
end
local next = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
return {taken, next[2] and next[2] - now or -1}
"""
)

# Bells go back to the front: each before its tenant's others, and its tenant before the other tenants. They are put
# back from the last to the first, so that they come out in their order. Without bells, the script wakes another caller
# in place of the one that was woken in vain.
GIVE_BACK = (
    RELIEVES
    + SHARED
    + """
for i = #ARGV, 1, -1 do
    local tenant = owner(ARGV[i])
    local key = bells .. tenant
    redis.call('INCRBY', count, redis.call('ZADD', key, 'LT', score(key, 0, 1) - 1, ARGV[i]))
    redis.call('ZADD', turns, 'LT', score(turns, 0, 1) - 1, tenant)
end
rouse()
"""
)

# Nothing is written, but a server runs the script only while it takes writes: a replica refuses it, and so does a
# primary that has lost its replicas, can't save, or is full.
PROBE = """#!lua
return 1
"""


@dataclass(frozen=True, slots=True)
class LaneKeys:
    """The keys of one lane. The braces keep them, and those of the tenants' sets, on one node of a cluster."""

    prefix: str
    lane: str

    @property
    def wake(self) -> str:
        return self._key("wake")

    def all(self) -> list[str]:
        """The keys, in the order in which the scripts expect them."""
        return [self._key("turns"), self._key("later"), self.wake, self._key("count"), self._key("bells:")]

    def _key(self, name: str) -> str:
        return f"{self.prefix}:{{{self.lane}}}:{name}"
