-- The books of one tenant. Every operation is one run of this script, so it happens at once and by the server's clock.
--
-- KEYS 1 books  hash: version, json: the definitions; s<account> spent, h<account> held, t<account> last day of use;
--               l<share> orders about a limit, "<set or -> <until ms>:<amount> …", until 0: for good;
--               c<call id> a call: its state and [account, unit, amount] each, packed; o<order id> an order carried out
--      2 names  hash: account → what it is, JSON
--      3 due    sorted set, ms: when a hold expires, a call, order (by its field) or account (a<account>) is forgotten
-- ARGV 1 operation, 2 now in ms, empty: the server's clock; the others by operation
--
-- Amounts are decimal texts, and large ones are added in two parts: a number of Lua is exact to 2^53 only, which is nine million
-- dollars. What is written is written at once: each command costs, here, in the append-only file and in the replicas.

local books, names, due = KEYS[1], KEYS[2], KEYS[3]
local operation, now = ARGV[1], tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- As in sqlite_books.py. How long a call is remembered once it was settled, or else ended, and an order; one run sweeps so many.
local SETTLED_MS, ENDED_MS, ORDER_MS, SWEPT = 3600000, 86400000, 7776000000, 100

local function high(text) return #text > 9 and tonumber(string.sub(text, 1, -10)) or 0 end
local function low(text) return tonumber(string.sub(text, -9)) end

-- a + sign * b, at least 0
local function sum(a, sign, b)
  if #a < 16 and #b < 16 then return string.format('%d', math.max(a + sign * b, 0)) end
  local hi, lo = high(a) + sign * high(b), low(a) + sign * low(b)
  hi, lo = hi + math.floor(lo / 1e9), lo % 1e9
  if hi > 0 then return string.format('%d%09d', hi, lo) end
  return hi < 0 and '0' or string.format('%d', lo)
end

local function exceeds(a, b) return #a > #b or (#a == #b and a > b) end

local function call_of(member)
  local packed = redis.call('HGET', books, member)
  return packed and cmsgpack.unpack(packed)
end

-- Says what became of a call, changes accounts, and for how long it is remembered.
-- taken: what is given back of what was held; charged: amounts by unit, added to what was spent
local function close(member, call, state, for_ms, taken, charged)
  local fields = {}
  for i = 2, #call, 3 do
    fields[#fields + 1], fields[#fields + 2] = 'h' .. call[i], 's' .. call[i]
  end
  local found, written = redis.call('HMGET', books, unpack(fields)), {}
  for i = 2, #call, 3 do
    local n, w = (i - 2) / 3 * 2, #written
    if taken then
      written[w + 1], written[w + 2], w = fields[n + 1], sum(found[n + 1] or '0', -1, call[i + 2]), w + 2
    end
    if charged then
      written[w + 1], written[w + 2] = fields[n + 2], sum(found[n + 2] or '0', 1, charged[call[i + 1]])
    end
  end
  if charged then call = {} end -- all that is asked of it is that it was settled
  call[1] = state
  local w = #written
  written[w + 1], written[w + 2] = member, cmsgpack.pack(call)
  redis.call('HSET', books, unpack(written))
  redis.call('ZADD', due, now + for_ms, member)
end

-- ARGV 3 call id
if operation == 'release' then
  local member = 'c' .. ARGV[3]
  local call = call_of(member)
  if not call or call[1] ~= 'held' then return 'known ' .. (call and call[1] or 'none') end
  close(member, call, 'released', ENDED_MS, true)
  return 'released'
end

local function charge(member, call)
  local was = call[1]
  if was == 'settled' then return 'known settled' end
  close(member, call, 'settled', SETTLED_MS, was == 'held', {ARGV[4], ARGV[5], ARGV[6]})
  return 'settled ' .. was
end

-- ARGV 3 call id, 4 nano-dollars, 5 tokens, 6 steps; then the claims, to charge even what was never reserved
if operation == 'settle' then
  local member = 'c' .. ARGV[3]
  local call = call_of(member)
  if call then return charge(member, call) end
  if #ARGV == 6 then return 'unknown' end
end

-- What follows is not needed by the above, and defining it takes time.

local CLAIM = '^(%d) (%d+) (%d) (%d*) (%d*) (%d+) ([^%z]*)%z(.*)$'

-- Holds that have expired give the money back; what is old is forgotten. The work is bounded; the rest is left to the next run.
local function sweep()
  local late = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, SWEPT)
  for _, member in ipairs(late) do
    local kind, name = string.sub(member, 1, 1), string.sub(member, 2)
    local call = kind == 'c' and call_of(member)
    if call and call[1] == 'held' then
      close(member, call, 'expired', ENDED_MS, true)
    else
      if kind == 'a' then
        redis.call('HDEL', books, 's' .. name, 'h' .. name, 't' .. name)
        redis.call('HDEL', names, name)
      else
        redis.call('HDEL', books, member)
      end
      redis.call('ZREM', due, member)
    end
  end
  return #late
end

local function claim_of(text)
  local unit, limit, enforced, first, last, kept, name, scope = string.match(text, CLAIM)
  local share = scope .. '|' .. name
  return {
    unit = tonumber(unit), limit = limit, enforced = enforced == '1', first = first, last = last, kept = tonumber(kept),
    name = name, scope = scope, share = share, account = first == '' and share or share .. '|' .. first,
  }
end

local function covers(claim) -- whether the claim is about the period at hand
  return claim.first == '' or (tonumber(claim.first) * 1000 <= now and now < tonumber(claim.last) * 1000)
end

-- Says once a day what an account is, and until when it is kept.
local function touch(claim, day)
  local today = tostring(math.floor(now / 86400000))
  if day == today then return end
  redis.call('HSET', books, 't' .. claim.account, today)
  redis.call('HSET', names, claim.account, cjson.encode({claim.scope, claim.name, claim.unit, claim.first, claim.last}))
  if claim.kept > 0 then
    local from = claim.last == '' and now or tonumber(claim.last) * 1000
    redis.call('ZADD', due, from + claim.kept * 1000, 'a' .. claim.account)
  end
end

local function limit_of(claim, orders)
  if not orders then return claim.limit end
  local limit, more = string.match(orders, '^(%S+)(.*)$')
  if limit == '-' then limit = claim.limit end
  for till, amount in string.gmatch(more, '(%d+):(%d+)') do
    if till == '0' or tonumber(till) > now then limit = sum(limit, 1, amount) end
  end
  return limit
end

if operation == 'settle' then
  local call = {'none'}
  for i = 7, #ARGV do
    local claim, n = claim_of(ARGV[i]), #call
    call[n + 1], call[n + 2], call[n + 3] = claim.account, claim.unit, '0'
    touch(claim, redis.call('HGET', books, 't' .. claim.account))
  end
  return charge('c' .. ARGV[3], call)
end

-- ARGV 3 version of the definitions, 4 call id, 5 ms until the hold expires, 6 nano-dollars, 7 tokens, 8 steps; then the claims
if operation == 'reserve' then
  local member, claims = 'c' .. ARGV[4], {}
  local fields = {'version', member}
  for i = 9, #ARGV do
    local claim, f = claim_of(ARGV[i]), #fields
    local account = claim.account
    claims[#claims + 1] = claim
    fields[f + 1], fields[f + 2] = 'l' .. claim.share, 's' .. account
    fields[f + 3], fields[f + 4] = 'h' .. account, 't' .. account
  end
  local found = redis.call('HMGET', books, unpack(fields))
  if found[2] then
    local state = cmsgpack.unpack(found[2])[1]
    if state == 'held' and tonumber(redis.call('ZSCORE', due, member)) <= now then
      close(member, call_of(member), 'expired', ENDED_MS, true)
      return 'again'
    end
    if state == 'held' or state == 'settled' then return 'known ' .. state end
  end
  if found[1] ~= ARGV[3] then return 'stale' end
  local call, written, rooms, full, exceeded = {'held'}, {member, ''}, {}, false, false
  for n, claim in ipairs(claims) do
    if not covers(claim) then return 'period ' .. now end
    local amount, spent, held = ARGV[5 + claim.unit], found[4 * n] or '0', found[4 * n + 1] or '0'
    local limit, holds = limit_of(claim, found[4 * n - 1]), sum(held, 1, amount)
    if exceeds(sum(spent, 1, holds), limit) then full, exceeded = full or claim.enforced, true end
    rooms[n] = spent .. ' ' .. held .. ' ' .. limit
    call[3 * n - 1], call[3 * n], call[3 * n + 1] = claim.account, claim.unit, amount
    written[2 * n + 1], written[2 * n + 2] = fields[4 * n + 1], holds
  end
  if full then return sweep() > 0 and 'again' or 'refused ' .. table.concat(rooms, ' ') end
  written[2] = cmsgpack.pack(call)
  redis.call('HSET', books, unpack(written))
  redis.call('ZADD', due, now + tonumber(ARGV[5]), member)
  for n, claim in ipairs(claims) do touch(claim, found[4 * n + 2]) end
  if now % 16 == 0 then sweep() end -- now and then, so that what is old does not grow
  return (exceeded and 'over ' or 'held ') .. table.concat(rooms, ' ')
end

-- ARGV 3 order id, 4 set, extend or reset, 5 amount, 6 until in ms (0: for good), 7 version of the definitions, 8 claim
if operation == 'order' then
  local member, action, amount, claim = 'o' .. ARGV[3], ARGV[4], ARGV[5], claim_of(ARGV[8])
  if redis.call('HEXISTS', books, member) == 1 then return 'known order' end
  if redis.call('HGET', books, 'version') ~= ARGV[7] then return 'stale' end
  if not covers(claim) then return 'period ' .. now end
  local field = 'l' .. claim.share
  local set, more = string.match(redis.call('HGET', books, field) or '-', '^(%S+)(.*)$')
  if action == 'reset' then
    redis.call('HSET', books, 's' .. claim.account, '0')
  elseif action == 'set' then
    set = amount == '0' and '-' or amount
  end
  local kept = {set}
  for till, extra in string.gmatch(more, '(%d+):(%d+)') do
    if till == '0' or tonumber(till) > now then kept[#kept + 1] = till .. ':' .. extra end
  end
  if action == 'extend' then kept[#kept + 1] = ARGV[6] .. ':' .. amount end
  touch(claim)
  redis.call('HSET', books, field, table.concat(kept, ' '), member, '')
  redis.call('ZADD', due, now + ORDER_MS, member)
  return 'done'
end

-- ARGV in turn from 3: spent, claim
if operation == 'rebuild' then
  for i = 3, #ARGV, 2 do
    local claim = claim_of(ARGV[i + 1])
    redis.call('HSET', books, 's' .. claim.account, ARGV[i])
    touch(claim)
  end
  return 'done'
end

-- ARGV 3 version, 4 JSON
if operation == 'define' then
  if redis.call('HGET', books, 'version') ~= ARGV[3] then
    redis.call('HSET', books, 'version', ARGV[3], 'json', ARGV[4])
  end
  return 'done'
end

if operation == 'read' then return 'book ' .. now .. ' ' .. (redis.call('HGET', books, 'json') or '') end

return 'swept ' .. sweep()
