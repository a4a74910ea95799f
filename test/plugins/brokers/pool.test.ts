import { expect } from 'chai'
import { ofEachTest } from '../../support/parts.js'
import { explain } from '../../support/stage-rig.js'
import { afterResponse, BrokersRig, held, keyFor, sendWith, why } from './rig.js'

describe('brokers: a pool of keys', () => {
  const pool = { type: 'vendor_key_pool', key_refs: ['env:A', 'env:B', 'env:C'] }

  const rig = ofEachTest(() => new BrokersRig())
  beforeEach(() => {
    Object.assign(rig.env, { A: 'a', B: 'b', C: 'c' })
  })

  it('uses its keys round-robin', async () => {
    const stage = await rig.stage(pool)
    const keys: string[] = []
    for (let n = 0; n < 7; n++) keys.push(await keyFor(stage))
    expect(keys.join('')).to.equal('abcabca')
  })

  for (const status of [401, 403, 429]) {
    it(`puts a key into cooldown after ${status}, and offers the next for the same call`, async () => {
      const stage = await rig.stage(pool)
      const next = await afterResponse(await sendWith(stage), status)
      expect(next?.value).to.equal('b')
      const keys: string[] = []
      for (let n = 0; n < 4; n++) keys.push(await keyFor(stage))
      expect(keys.join('')).to.equal('cbcb')
      rig.clock.advance(60_000)
      for (let n = 0; n < 3; n++) keys.push(await keyFor(stage))
      expect(keys.join('')).to.include('a')
    })
  }

  it('ignores every other status', async () => {
    const stage = await rig.stage(pool)
    for (const status of [200, 400, 404, 409, 500, 503]) {
      expect(await afterResponse(await sendWith(stage), status, { 'retry-after': '60' })).to.equal(undefined)
    }
    expect(await keyFor(stage)).to.equal('a')
  })

  it('follows Retry-After, in seconds and as a date, within bounds', async () => {
    const single = { type: 'vendor_key_pool', key_refs: ['env:A'], cooldown_sec: 10, max_cooldown_sec: 100 }
    const rests = async (header: string | undefined): Promise<number> => {
      const stage = await rig.stage({ ...single, key_dirs: [String(header)] })
      expect(
        await afterResponse(
          await sendWith(stage),
          429,
          header === undefined ? {} : { 'retry-after': header },
        ),
      ).to.equal(undefined)
      for (let seconds = 0; seconds <= 200; seconds++) {
        if ((await sendWith(stage)).credential !== undefined) return seconds
        rig.clock.advance(1000)
      }
      return Number.POSITIVE_INFINITY
    }
    expect(await rests('7')).to.equal(7)
    expect(await rests(new Date(rig.clock.now() + 30_000).toUTCString())).to.equal(30)
    expect(await rests(undefined)).to.equal(10)
    expect(await rests('soon')).to.equal(10)
    expect(await rests('-5')).to.equal(10)
    expect(await rests('0')).to.equal(1)
    expect(await rests(new Date(0).toUTCString())).to.equal(1)
    expect(await rests('86400')).to.equal(100)
  })

  it('offers a second key once, and puts it into cooldown too', async () => {
    const stage = await rig.stage(pool)
    const second = await afterResponse(await sendWith(stage), 429)
    if (second === undefined) throw new Error('no second key was offered')
    expect(await afterResponse(second, 429)).to.equal(undefined)
    expect(await keyFor(stage)).to.equal('c')
    expect(await keyFor(stage)).to.equal('c')
  })

  it('puts neither key into cooldown after 403 with both: the call is refused, not the keys', async () => {
    const stage = await rig.stage(pool)
    const second = await afterResponse(await sendWith(stage), 403)
    if (second === undefined) throw new Error('no second key was offered')
    await afterResponse(second, 403)
    const keys = new Set<string>()
    for (let n = 0; n < 3; n++) keys.add(await keyFor(stage))
    expect([...keys].sort().join('')).to.equal('abc')
  })

  it('repeats a call only after the statuses that the policy names', async () => {
    const stage = await rig.stage({ ...pool, retry_on: [429] })
    expect(await afterResponse(await sendWith(stage), 403)).to.equal(undefined)
    expect((await afterResponse(await sendWith(stage), 429))?.value).to.equal('c')
  })

  it('refuses the call while every key is in cooldown, and logs for how long', async () => {
    const stage = await rig.stage(pool)
    await afterResponse(await sendWith(stage), 429, { 'retry-after': '90' })
    for (const wait of ['45', '60']) {
      const second = await sendWith(stage)
      await afterResponse(second, 429, { 'retry-after': wait })
    }
    expect(why(await sendWith(stage))).to.deep.equal({
      said: 'BROKER_UNAVAILABLE: The credential for server "files" is not available: no key is usable now.',
      logged: '3 of 3 keys are in cooldown, for 45 s or longer',
    })
  })

  it('skips a key that cannot be read', async () => {
    delete rig.env['B']
    const stage = await rig.stage(pool)
    expect([await keyFor(stage), await keyFor(stage), await keyFor(stage)].join('')).to.equal('aca')
  })

  it('refuses the call when no key can be read', async () => {
    for (const name of ['A', 'B', 'C']) delete rig.env[name]
    const { said, logged } = why(await sendWith(await rig.stage(pool)))
    expect(said).to.match(/^BROKER_UNAVAILABLE: .*: no key is usable now\.$/)
    expect(logged).to.equal(
      'key_refs[0]: the environment variable A is not set; key_refs[1]: the environment variable B is not set; ' +
        'key_refs[2]: the environment variable C is not set',
    )
  })

  it('does not repeat a call with the same key under another reference', async () => {
    rig.env['B'] = 'a'
    const stage = await rig.stage({ ...pool, key_refs: ['env:A', 'env:B'] })
    expect(await afterResponse(await sendWith(stage), 401)).to.equal(undefined)
  })

  it('keeps its cooldowns across a reload', async () => {
    const before = await rig.stage(pool)
    await afterResponse(await sendWith(before), 429)
    const after = await rig.stage(pool)
    await before.stop?.()
    expect([await keyFor(after), await keyFor(after)]).to.not.include('a')
  })

  it('serves an MCP session with its first key until the cooldown of that key', async () => {
    const stage = await rig.stage(pool)
    const begun = await sendWith(stage)
    await afterResponse(begun, 200, { 'mcp-session-id': 's-1' })
    const session = { 'mcp-session-id': 's-1' }
    expect(
      [await keyFor(stage, session), await keyFor(stage), await keyFor(stage, session)].join(''),
    ).to.equal('aba')
    const moved = await afterResponse(await sendWith(stage, session), 429)
    expect(moved?.value).to.equal('c')
    if (moved !== undefined) await afterResponse(moved, 200)
    expect(await keyFor(stage, session)).to.equal('c')
  })

  it('logs which key is in cooldown and why, by its path in the policy', async () => {
    const stage = await rig.stage(pool)
    await afterResponse(await sendWith(stage), 429, { 'retry-after': '5' })
    expect(rig.log.lines).to.deep.equal([
      {
        level: 'warn',
        fields: { server: 'files', key: 'key_refs[0]', status: 429, seconds: 5 },
        message: 'a key of the pool is in cooldown',
      },
    ])
  })

  it('explains itself without reading a key', async () => {
    const stage = await rig.stage(pool)
    const brokered = await sendWith(stage)
    const { lines, outcome } = await explain(stage, brokered.call)
    expect(lines).to.deep.equal(['puts one of 3 keys, round-robin, into the header "x-api-key"'])
    expect(outcome).to.equal(brokered.outcome)
    expect(held(brokered).value).to.equal('a')
  })
})
