import { expect } from 'chai'
import { acme, reasonFor, run } from './rig.js'

const NOT_LISTED = 'tool_not_in_allowlist'
const DENIED = 'tool_in_denylist'

describe('entitlements: lists that override', () => {
  const intern = { override: true, allowlist: ['files/read'] }

  for (const [section, id, caller] of [
    ['users', 'ada', { user: 'ada' }],
    ['user_ids', 'u-1', { userId: 'u-1' }],
    ['roles', 'intern', { roles: ['intern'] }],
    ['agents', 'bot', { clientId: 'bot' }],
    ['agent_nodes', 'n1', { nodeId: 'n1', claimedNode: 'n1' }],
  ] as const) {
    it(`replace the allowlists above them: ${section}`, async () => {
      const policy = acme({ allowlist: ['files/*'], [section]: { [id]: intern } })
      const { findings } = await run(policy, caller)
      expect(findings[0]).to.include({ reason: NOT_LISTED })
      expect(findings[0]?.detail).to.not.include('tenant')
      expect(await reasonFor(policy, caller, { tool: 'read' })).to.equal('allowed')
      expect(await reasonFor(policy, { user: 'somebody else' })).to.equal('allowed')
    })
  }

  it('close a server to requests of the protocol', async () => {
    const policy = acme({ allowlist: ['*'], roles: { intern: { override: true, allowlist: ['mail/*'] } } })
    const request = { request: { kind: 'protocol' } } as const
    expect(await reasonFor(policy, { roles: ['intern'] }, request)).to.equal(NOT_LISTED)
    expect(await reasonFor(policy, { roles: [] }, request)).to.equal('allowed')
  })

  it('leave the denylists above them in place', async () => {
    const wide = { override: true, allowlist: ['*'] }
    const ada = { user: 'ada' }
    expect(await reasonFor(acme({ denylist: ['echo'], users: { ada: wide } }), ada)).to.equal(DENIED)
    expect(await reasonFor(acme({ users: { ada: wide } }, { denylist: ['echo'] }), ada)).to.equal(DENIED)
  })

  it('without an allowlist leave the allowlists above them in place', async () => {
    const policy = acme({ allowlist: ['echo'], users: { ada: { override: true } } })
    expect(await reasonFor(policy, { user: 'ada' })).to.equal('allowed')
  })

  it('and those of other principals add up', async () => {
    const policy = acme({ allowlist: ['*'], roles: { intern, echoer: { allowlist: ['echo'] } } })
    expect(await reasonFor(policy, { roles: ['intern', 'echoer'] })).to.equal('allowed')
    expect(await reasonFor(policy, { roles: ['intern', 'echoer'] }, { tool: 'drop' })).to.equal(NOT_LISTED)
  })

  it('apply to the node of the token if the header is missing or names another node', async () => {
    const policy = acme({ allowlist: ['*'], agent_nodes: { n1: intern, n2: {} } })
    for (const claimed of [{}, { claimedNode: 'n2' }]) {
      expect(await reasonFor(policy, { nodeId: 'n1', ...claimed })).to.equal(NOT_LISTED)
    }
  })

  it('allow nothing to a node that only the header names', async () => {
    const policy = acme({ agent_nodes: { n1: { override: true, allowlist: ['*'] } } })
    expect(await reasonFor(policy, { claimedNode: 'n1' })).to.equal(NOT_LISTED)
  })
})
