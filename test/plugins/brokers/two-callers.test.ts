// What one caller's input causes at an upstream or a token endpoint never changes what another caller gets.
import type { Identity, Stage } from '@svc/core'
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { ofEachTest } from '../../support/parts.js'
import { json, startTokenEndpoint, type TestTokenEndpoint } from '../../support/token-endpoint.js'
import { ada, afterResponse, BrokersRig, sendWith } from './rig.js'

const seed = Number(process.env['SVC_SEED'] ?? 1)
const bob: Identity = { tenant: 'acme', authenticated: true, user: 'bob@example.com', roles: [] }

describe('brokers: two callers', () => {
  let endpoint: TestTokenEndpoint

  const rig = ofEachTest(() => new BrokersRig())
  beforeEach(async () => {
    Object.assign(rig.env, { A: 'a', B: 'b', SECRET: 's' })
    endpoint = await startTokenEndpoint()
  })

  afterEach(() => endpoint[Symbol.asyncDispose]())

  const pool = (more: object = {}): Promise<Stage> =>
    rig.stage({ type: 'vendor_key_pool', key_refs: ['env:A', 'env:B'], ...more })

  /** A call whose responses are these statuses, the second if it is repeated. */
  async function refused(stage: Stage, caller: Identity, statuses: readonly number[]): Promise<void> {
    const call = await sendWith(stage, {}, caller)
    if (call.credential === undefined) return
    const second = await afterResponse(call.credential, statuses[0] ?? 429)
    if (second !== undefined) await afterResponse(second, statuses[1] ?? 429)
  }

  for (const retry_on of [[401, 403, 429], []]) {
    it(`keep their keys if the other's calls are refused, ${retry_on.length === 0 ? 'not repeated' : 'repeated'}`, async () => {
      const stage = await pool({ retry_on })
      const chance = new Chance(seed)
      for (let round = 0; round < 200; round++) {
        await refused(stage, ada, [chance.pick([401, 403, 429]), chance.pick([200, 401, 403, 429])])
        const call = await sendWith(stage, {}, bob)
        expect(call.credential, `SVC_SEED=${seed}, round ${round}`).to.not.equal(undefined)
        // Nobody's success but bob's own may be what keeps the keys.
        if (round % 2 === 0 && call.credential !== undefined) await afterResponse(call.credential, 200)
        rig.clock.advance(chance.int(0, 5_000))
      }
    })
  }

  it('get no key that was refused to several callers and worked for none', async () => {
    const stage = await pool({ key_refs: ['env:A'] })
    for (const user of ['ann', 'ben', 'cem']) await refused(stage, { ...ada, user }, [429])
    expect((await sendWith(stage, {}, bob)).credential).to.equal(undefined)
    rig.clock.advance(60_000)
    expect((await sendWith(stage, {}, bob)).credential).to.include({ value: 'a' })
  })

  it('keep their token exchange if that of the other fails', async () => {
    const stage = await rig.stage({
      type: 'oidc_on_behalf',
      token_endpoint: endpoint.url,
      client_id: 'gw',
      client_secret_ref: 'env:SECRET',
      timeout_ms: 200,
    })
    const chance = new Chance(seed)
    for (let round = 0; round < 20; round++) {
      const error = chance.pick([400, 500, 503, 200])
      endpoint.response((_, response) => json(response, error, {}))
      await sendWith(stage, { authorization: `Bearer ada${round}` }, ada)
      endpoint.issue({})
      const call = await sendWith(stage, { authorization: `Bearer bob${round}` }, bob)
      expect(call.credential, `SVC_SEED=${seed}, round ${round}`).to.not.equal(undefined)
      endpoint.response((_, response) => json(response, 500, {}))
      for (let more = 0; more < 3; more++) {
        await sendWith(stage, { authorization: `Bearer ada${round}-${more}` }, ada)
      }
    }
  })
})
