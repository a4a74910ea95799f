// What the gateway knows of the tools of its servers.
import { expect } from 'chai'
import { startAdminRig } from '../app/admin/rig.js'
import { until } from '../support/redis.js'
import { scriptedTarget } from '../support/stdio-target.js'
import { startUpstream } from '../support/upstream.js'

interface Known {
  readonly servers: readonly { readonly server: string; readonly listed: boolean; readonly tools: string[] }[]
}

describe('the tools that the console knows', () => {
  it('are those that a running command lists, that the policy names, and that were called', async () => {
    await using plain = await startUpstream()
    await using rig = await startAdminRig({
      targets: {
        running: scriptedTarget('', { start: 'at_start' }),
        waiting: scriptedTarget(''),
        plain: plain.url,
      },
      entitlements: {
        default_plan: 'p',
        plans: { p: { allowlist: ['waiting/named', 'plain/get_*', '*/any', 'plain/versioned@1.0.0'] } },
        tenants: {},
      },
      rules: [{ name: 'no', tools: ['plain/refused', 'plain/prompts/hello'], then: 'deny' }],
    })
    await rig.gateway.invoke('/mcp/plain/get_called@1.0.0')
    const known = async () => (await rig.admin('/api/policy')).json as unknown as Known
    await until(async () => (await known()).servers[0]?.listed === true)
    const { servers } = await known()
    expect(servers[0]?.tools).to.include('echo')
    expect(servers.slice(1).map(({ server, listed, tools }) => ({ server, listed, tools }))).to.deep.equal([
      { server: 'waiting', listed: false, tools: ['named'] },
      { server: 'plain', listed: false, tools: ['get_called', 'refused', 'versioned'] },
    ])
    const { servers: states } = (await rig.admin('/api/servers')).json as unknown as {
      servers: { server: string; state: string }[]
    }
    expect(states.map(({ state }) => state)).to.deep.equal(['up', 'idle', 'unknown'])
  })
})
