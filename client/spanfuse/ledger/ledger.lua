-- The books of one tenant. Every operation is one run of this script, so it happens at once and by the server's clock.
--
-- KEYS 1 book      hash: version, json; l<share>: orders about its limit, "<set or -> <until ms>:<amount> …", until 0: for good
--      2 accounts  hash: s<account> spent, h<account> held, t<account> last day of use, m<account> what it is, JSON
--      3 calls     hash: c<call id>: its state and [account, unit, amount] each, packed; o<order id>: carried out
--      4 due       sorted set, ms: when a hold expires, a call, order (its field) or account (a<account>) is forgotten
-- ARGV 1 operation, 2 now in ms, empty: the server's clock; the others by operation
--
-- Amounts are decimal texts: the server adds them as 64-bit integers (HINCRBY), and they are compared in two parts, since a
-- number of Lua is exact to 2^53 only, which is nine million dollars.

local book, accounts, calls, due = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local operation, now = ARGV[1], tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- As in sqlite.py. How long a call is remembered once it was settled, or else ended, and an order; one run sweeps so many.
local SETTLED_MS, ENDED_MS, ORDER_MS, SWEPT = 3600000, 86400000, 7776000000, 100
local function add(field, sign, amount)
  if amount ~= '0' then redis.call('HINCRBY', accounts, field, sign .. amount) end
end

local function call_of(member)
  local packed = redis.call('HGET', calls, member)
  return packed and cmsgpack.unpack(packed)
end

local function keep(member, call, state, for_ms)
  call[1] = state
  redis.call('HSET', calls, member, cmsgpack.pack(call))
  redis.call('ZADD', due, now + for_ms, member)
end

local function give_back(call)
  for i = 2, #call, 3 do add('h' .. call[i], '-', call[i + 2]) end
end

-- ARGV 3 call id
if operation == 'release' then
  local member = 'c' .. ARGV[3]
  local call = call_of(member)
  if not call or call[1] ~= 'held' then return 'known ' .. (call and call[1] or 'none') end
  give_back(call)
  keep(member, call, 'released', ENDED_MS)
  return 'released'
end

local function charge(member, call)
  local was = call[1]
  if was == 'settled' then return 'known settled' end
  if was == 'held' then give_back(call) end
  for i = 2, #call, 3 do add('s' .. call[i], '', ARGV[3 + call[i + 1]]) end
  keep(member, {}, 'settled', SETTLED_MS)
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


local function high(text) return #text > 9 and tonumber(string.sub(text, 1, -10)) or 0 end
local function low(text) return tonumber(string.sub(text, -9)) end

local function text_of(hi, lo)
  hi, lo = hi + math.floor(lo / 1e9), lo % 1e9
  return hi > 0 and string.format('%.0f%09.0f', hi, lo) or string.format('%.0f', lo)
end

-- Holds that have expired give the money back; what is old is forgotten. The work is bounded; the rest is left to the next run.
local function sweep()
  local late = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, SWEPT)
  for _, member in ipairs(late) do
    local kind, name = string.sub(member, 1, 1), string.sub(member, 2)
    local call = kind == 'c' and call_of(member)
    if call and call[1] == 'held' then
      give_back(call)
      keep(member, call, 'expired', ENDED_MS)
    else
      if kind == 'a' then
        redis.call('HDEL', accounts, 's' .. name, 'h' .. name, 't' .. name, 'm' .. name)
      else
        redis.call('HDEL', calls, member)
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
  local what = cjson.encode({claim.scope, claim.name, claim.unit, claim.first, claim.last})
  redis.call('HSET', accounts, 't' .. claim.account, today, 'm' .. claim.account, what)
  if claim.kept > 0 then
    local from = claim.last == '' and now or tonumber(claim.last) * 1000
    redis.call('ZADD', due, from + claim.kept * 1000, 'a' .. claim.account)
  end
end

local function limit_of(claim, orders)
  local base, more = claim.limit, ''
  if orders then
    local set, rest = string.match(orders, '^(%S+)(.*)$')
    if set ~= '-' then base = set end
    more = rest
  end
  local hi, lo = high(base), low(base)
  for till, amount in string.gmatch(more, '(%d+):(%d+)') do
    if till == '0' or tonumber(till) > now then hi, lo = hi + high(amount), lo + low(amount) end
  end
  return hi, lo
end

if operation == 'settle' then
  local call = {'none'}
  for i = 7, #ARGV do
    local claim, n = claim_of(ARGV[i]), #call
    call[n + 1], call[n + 2], call[n + 3] = claim.account, claim.unit, '0'
    touch(claim, redis.call('HGET', accounts, 't' .. claim.account))
  end
  return charge('c' .. ARGV[3], call)
end

-- ARGV 3 version of the definitions, 4 call id, 5 ms until the hold expires, then in turn: amount, claim
if operation == 'reserve' then
  local member = 'c' .. ARGV[4]
  local known = call_of(member)
  if known and known[1] == 'held' and tonumber(redis.call('ZSCORE', due, member)) <= now then
    give_back(known)
    keep(member, known, 'expired', ENDED_MS)
  elseif known and (known[1] == 'held' or known[1] == 'settled') then
    return 'known ' .. known[1]
  end
  local claims, fields, shares = {}, {}, {'version'}
  for i = 6, #ARGV, 2 do
    local claim = claim_of(ARGV[i + 1])
    if not covers(claim) then return 'period ' .. now end
    local n, account = #claims, claim.account
    claims[n + 1], shares[n + 2] = claim, 'l' .. claim.share
    fields[3 * n + 1], fields[3 * n + 2], fields[3 * n + 3] = 's' .. account, 'h' .. account, 't' .. account
  end
  local orders = redis.call('HMGET', book, unpack(shares))
  if orders[1] ~= ARGV[3] then return 'stale' end
  local found = redis.call('HMGET', accounts, unpack(fields))
  local call, rooms, full, exceeded = {'held'}, {}, false, false
  for n, claim in ipairs(claims) do
    local amount, spent, held = ARGV[4 + 2 * n], found[3 * n - 2] or '0', found[3 * n - 1] or '0'
    local hi, lo = limit_of(claim, orders[n + 1])
    local over = hi - high(spent) - high(held) - high(amount)
    over = over * 1e9 + lo - low(spent) - low(held) - low(amount) -- its sign is exact
    if over < 0 then full, exceeded = full or claim.enforced, true end
    rooms[n] = spent .. ' ' .. held .. ' ' .. text_of(hi, lo)
    call[3 * n - 1], call[3 * n], call[3 * n + 1] = claim.account, claim.unit, amount
  end
  if full then return sweep() > 0 and 'again' or 'refused ' .. table.concat(rooms, ' ') end
  if now % 16 == 0 then sweep() end -- now and then, so that what is old does not grow
  for n, claim in ipairs(claims) do
    add('h' .. claim.account, '', ARGV[4 + 2 * n])
    touch(claim, found[3 * n])
  end
  keep(member, call, 'held', tonumber(ARGV[5]))
  return (exceeded and 'over ' or 'held ') .. table.concat(rooms, ' ')
end

-- ARGV 3 order id, 4 set, extend or reset, 5 amount, 6 until in ms (0: for good), 7 version of the definitions, 8 claim
if operation == 'order' then
  local member, action, amount, claim = 'o' .. ARGV[3], ARGV[4], ARGV[5], claim_of(ARGV[8])
  if redis.call('HEXISTS', calls, member) == 1 then return 'known order' end
  if redis.call('HGET', book, 'version') ~= ARGV[7] then return 'stale' end
  if not covers(claim) then return 'period ' .. now end
  local field = 'l' .. claim.share
  local set, more = string.match(redis.call('HGET', book, field) or '-', '^(%S+)(.*)$')
  if action == 'reset' then
    redis.call('HSET', accounts, 's' .. claim.account, '0')
  elseif action == 'set' then
    set = amount == '0' and '-' or amount
  end
  local kept = {set}
  for till, extra in string.gmatch(more, '(%d+):(%d+)') do
    if till == '0' or tonumber(till) > now then kept[#kept + 1] = till .. ':' .. extra end
  end
  if action == 'extend' then kept[#kept + 1] = ARGV[6] .. ':' .. amount end
  redis.call('HSET', book, field, table.concat(kept, ' '))
  touch(claim)
  redis.call('HSET', calls, member, '')
  redis.call('ZADD', due, now + ORDER_MS, member)
  return 'done'
end

-- ARGV in turn from 3: spent, claim
if operation == 'rebuild' then
  for i = 3, #ARGV, 2 do
    local claim = claim_of(ARGV[i + 1])
    redis.call('HSET', accounts, 's' .. claim.account, ARGV[i])
    touch(claim)
  end
  return 'done'
end

-- ARGV 3 version, 4 JSON
if operation == 'define' then
  if redis.call('HGET', book, 'version') ~= ARGV[3] then
    redis.call('HSET', book, 'version', ARGV[3], 'json', ARGV[4])
  end
  return 'done'
end

if operation == 'read' then return 'book ' .. now .. ' ' .. (redis.call('HGET', book, 'json') or '') end

return 'swept ' .. sweep()
