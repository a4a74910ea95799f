// What the gateway knows of the tools of its servers.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { startAdminRig } from '../app/admin/rig.js'
import { until } from '../support/redis.js'
import { scriptedTarget } from '../support/stdio-target.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startSessionServer } from '../support/tool-servers.js'
import { startUpstream } from '../support/upstream.js'

interface Known {
  readonly servers: readonly { readonly server: string; readonly listed: boolean; readonly tools: string[] }[]
}

describe('the tools that the console knows', () => {
  const dir = temporaryDir()

  it('are those that a running command lists, that the policy or its lock file names, and that were called', async () => {
    await using plain = await startUpstream()
    const lock = join(dir.path, 'tools.lock.yaml')
    writeFileSync(
      lock,
      'version: 1\nservers: { waiting: { tools: [{ name: locked, inputSchema: { type: object } }] } }\n',
    )
    await using rig = await startAdminRig({
      protections: { definitions: { lock } },
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
      { server: 'waiting', listed: false, tools: ['locked', 'named'] },
      { server: 'plain', listed: false, tools: ['get_called', 'refused', 'versioned'] },
    ])
    const { servers: states } = (await rig.admin('/api/servers')).json as unknown as {
      servers: { server: string; state: string }[]
    }
    expect(states.map(({ state }) => state)).to.deep.equal(['up', 'idle', 'unknown'])
  })

  it('are what the first call is suggested of: one that a server lists, never its page', async () => {
    await using server = await startSessionServer('files', (mcp) => {
      for (const name of ['wipe', 'get_file']) mcp.registerTool(name, {}, () => ({ content: [] }))
    })
    await using page = await startUpstream((_, response) => response.end('<html></html>'))
    const first = async (target: string) => {
      await using rig = await startAdminRig({ targets: { files: target } })
      const { first_call: found } = (await rig.admin('/api/calls')).json as unknown as {
        first_call: { url: string; by: string }
      }
      const { status } = await fetch(found.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      })
      // A second look asks a server that is none of MCP nothing.
      const asked = page.calls.length
      await rig.admin('/api/calls')
      expect(page.calls).to.have.length(asked)
      return [found.by, found.url.slice(found.url.indexOf('/mcp/')), status]
    }
    const [by, url, status] = await first(`mcp+${server.url}`)
    expect([by, status]).to.deep.equal(['listed_tool', 200])
    expect(url).to.match(/^\/mcp\/files\/get_file@\d/)
    expect((await first(server.url)).slice(0, 2)).to.deep.equal(['mcp_client', '/mcp/files'])
    expect((await first(page.url)).slice(0, 2)).to.deep.equal(['unknown_tool', '/mcp/files/TOOL@1.0.0'])
    expect(page.calls.filter(({ body }) => body.includes('"initialize"'))).to.have.length(1)
  })
})
