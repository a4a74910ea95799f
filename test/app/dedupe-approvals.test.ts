import { expect } from 'chai'
import { startTestGateway } from '../support/gateway.js'
import { ofEachTest } from '../support/parts.js'
import { startUpstream } from '../support/upstream.js'

const WIPE = '/mcp/files/wipe@1.0.0'

describe('a call that needs an approval and carries an idempotency key', () => {
  const upstream = ofEachTest(() => startUpstream())
  const gateway = ofEachTest(() =>
    startTestGateway((home) => ({
      sec0Dir: home,
      targets: { files: upstream.url },
      entitlements: { default_plan: 'free', plans: { free: {} }, tenants: {} },
      enforcement: { escalate_on: ['tool_not_in_allowlist'] },
      security: {
        side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'auto_allow' } },
      },
      dedupe: {},
    })),
  )

  const wipe = (key: string) => gateway.invoke(WIPE, { all: true }, { 'idempotency-key': key })
  const marks = async (...keys: string[]) => {
    const found: (string | null)[] = []
    for (const key of keys) found.push((await wipe(key)).headers.get('x-dedupe'))
    return found
  }

  it('is replayed under the approval of its first call, without another approval', async () => {
    expect(await marks('k-1', 'k-1', 'k-1')).to.deep.equal(['first', 'replay', 'replay'])
    expect(upstream.calls).to.have.lengthOf(1)
    expect(new Set(gateway.records().map(({ escalation_id }) => escalation_id ?? 'none'))).to.have.property(
      'size',
      1,
    )
  })

  it('needs another approval under another key', async () => {
    expect(await marks('k-1', 'k-2', 'k-1', 'k-2')).to.deep.equal(['first', 'first', 'replay', 'replay'])
    expect(upstream.calls).to.have.lengthOf(2)
  })
})
