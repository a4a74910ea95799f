// What the switch of a tool says before it is used: who loses or regains the tool, and the calls of a day judged again.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { BlockList } from 'svc-sdk/internal/blocks/block'
import { type SwitchDependencies, switchOperations } from 'svc-sdk/internal/console/switch-operations'
import { replayBlock } from 'svc-sdk/internal/policy-tools/replay/replay-block'
import { type AdminRig, adminToken, startAdminRig } from '../app/admin/rig.js'
import { loadPolicyText } from '../app/policy/generated-policies.js'
import { TestIssuer } from '../support/issuer.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'

interface Preview {
  readonly access: readonly { readonly before: string | null; readonly after: string | null }[]
  readonly replay: {
    readonly read: number
    readonly judged: number
    readonly same: number
    readonly groups: readonly { readonly change: string; readonly calls: number; readonly why: string }[]
    readonly repeated: number
    readonly decided: number
  }
}

describe('the preview of a switch', () => {
  const home = temporaryDir()
  let dir: string

  const policy = (url: string, extra = '') => `
tenant: acme
port: 0
targets: { billing: ${url}, crm: ${url} }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, dir: ${dir}, signer: { keyRef: "file://${join(dir, '../key')}" } }
entitlements: open
quotas: { adapter: memory }
admin: { port: 0, tokenRef: env:SVC_ADMIN, console: { edit: true } }
rules: [{ name: large, tools: [billing/refund], require: args.amount <= 10, then: deny }]
${extra}`

  beforeEach(() => {
    mkdirSync(join(home.path, 'state'), { recursive: true })
    dir = join(home.path, 'audit')
    generateKeyFile(join(home.path, 'key'))
  })

  const start = (policyYaml: string) => startAdminRig({ policyYaml, plugins: [] } as never)

  const post = async (rig: AdminRig, path: string, body: object) => {
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
    const response = await rig.admin(path, { method: 'POST', headers, body: JSON.stringify(body) })
    expect(response.status, response.text).to.equal(200)
    return response.json as unknown as { readonly block: { readonly id: string } }
  }

  const preview = async (rig: AdminRig, query: string) =>
    (await rig.admin(`/api/policy/switch?${query}`)).json as unknown as Preview

  it('judges the calls of the tool again by the policy in force, and what was refused while it was off', async () => {
    await using upstream = await startUpstream()
    await using rig = await start(policy(upstream.url))
    const call = async (tool: string, args: object) =>
      (await rig.gateway.invoke(`/mcp/${tool}@1.0.0`, args)).status
    for (const amount of [1, 2, 50]) await call('billing/refund', { amount })
    await call('billing/REFUND', { amount: 1 })
    for (let id = 0; id < 3; id++) await call('crm/find', { id })

    const off = await preview(rig, 'server=billing&tool=refund')
    expect(off.access).to.have.length(1)
    expect(off.replay).to.include({ read: 7, judged: 4, same: 1, repeated: 4, decided: 4 })
    expect(off.replay.groups.map(({ change, calls }) => [change, calls])).to.deep.equal([
      ['now denied', 2],
      ['now denied', 1],
    ])

    const wide = await post(rig, '/api/blocks', {
      kind: 'tool',
      pattern: '*/refund',
      for_sec: 60,
      reason: 'r',
    })
    const { policy_sha256 } = (await rig.admin('/api/policy/switch?server=crm&tool=find')).json as never
    const own = await post(rig, '/api/policy/switch', {
      ...{ server: 'billing', tool: 'refund', reason: 'r', policy_sha256 },
    })
    expect(await call('billing/refund', { amount: 1 })).to.equal(403)
    const still = await preview(rig, `server=billing&tool=refund&lift=${own.block.id}`)
    expect(still.access, 'another block is on it').to.deep.equal([])
    await post(rig, `/api/blocks/${wide.block.id}/lift`, {})
    const on = await preview(rig, `server=billing&tool=refund&lift=${own.block.id}`)
    expect(on.access).to.containSubset([{ before: `blocked:${own.block.id}`, after: null }])
    expect(on.replay.judged).to.equal(5)
    const allowed = on.replay.groups.filter(({ change }) => change.endsWith('allowed'))
    expect(allowed.reduce((sum, { calls }) => sum + calls, 0)).to.equal(1)
  })

  it('is of each name that a tool can have, and the switch is of this tool alone', async () => {
    await using upstream = await startUpstream()
    await using rig = await start(policy(upstream.url))
    const { policy_sha256 } = (await rig.admin('/api/policy/switch?server=crm&tool=find')).json as never
    const call = async (tool: string) =>
      (await rig.gateway.invoke(`/mcp/crm/${encodeURIComponent(tool)}@1.0.0`, {})).status
    const names = ['50%', 'a/b', 'prompts/x', 'resources/x', 'a*', 'a@1', 'a\\b', 'find it: now']
    for (const tool of names) {
      expect(await call(tool), tool).to.equal(200)
      const query = new URLSearchParams({ server: 'crm', tool })
      expect((await preview(rig, `${query}`)).replay.judged, tool).to.be.greaterThan(0)
      const { block } = await post(rig, '/api/policy/switch', {
        ...{ server: 'crm', tool, reason: 'r', policy_sha256 },
      })
      const refused: string[] = []
      for (const one of [...names, 'find', 'a', 'x']) if ((await call(one)) !== 200) refused.push(one)
      expect(refused).to.deep.equal([tool])
      const on = await preview(rig, `${query}&lift=${block.id}`)
      expect(on.replay.judged, tool).to.be.greaterThan(0)
      await post(rig, `/api/blocks/${block.id}/lift`, {})
    }
  })

  it('refuses names that no call can have, as the switch does, and keeps no block', async () => {
    await using upstream = await startUpstream()
    await using rig = await start(policy(upstream.url))
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
    const { policy_sha256 } = (await rig.admin('/api/policy/switch?server=crm&tool=find')).json as never
    const tools = ['%41', 'a//b', '..', 'a\u0001'].map((tool) => ['crm', tool])
    for (const [server = '', tool = ''] of [...tools, ['mcp:/', 'find'], ['c%20', 'find']]) {
      const about = `${server} ${tool}`
      const seen = await rig.admin(`/api/policy/switch?${new URLSearchParams({ server, tool })}`)
      expect([seen.status, seen.text], about).to.satisfy(
        ([status, text]: [number, string]) => status === 400 && text.includes('can be called'),
      )
      const body = JSON.stringify({ server, tool, reason: 'r', policy_sha256 })
      const set = await rig.admin('/api/policy/switch', { method: 'POST', headers, body })
      expect(set.status, about).to.equal(400)
    }
    expect((await rig.gateway.invoke('/mcp/crm/find@1.0.0', {})).status).to.equal(200)
    expect((await rig.admin('/api/blocks')).json['blocks']).to.deep.equal([])
  })

  it('says from when on it read no further, if it takes too long', async () => {
    await using upstream = await startUpstream()
    {
      await using rig = await start(policy(upstream.url))
      for (let id = 0; id < 5; id++) await rig.gateway.invoke('/mcp/crm/find@1.0.0', { id })
    }
    const load = async () => {
      const loaded = await loadPolicyText(home.path, policy(upstream.url))
      if (loaded === undefined) throw new Error('the policy does not load')
      return loaded
    }
    const settings = {
      dir,
      until: Date.now() + 1_000,
      place: { baseDir: home.path, env: { SVC_ADMIN: adminToken } },
      blocks: { current: () => new BlockList([]) },
      isOn: () => true,
      policy: await load(),
      loadKept: load,
      maxMs: -1,
    }
    const replay = await replayBlock({ ...settings, since: 0 })
    expect(replay.read).to.equal(0)
    expect(replay.stoppedAt).to.match(/^\d{4}-/)
    const since = settings.until - 1
    const before = await replayBlock({ ...settings, since })
    expect(before.stoppedAt, 'all records are older').to.equal(new Date(since).toISOString())
    const none = await replayBlock({ ...settings, since, maxMs: 60_000 })
    expect(none.read).to.equal(0)
    expect(none.stoppedAt).to.equal(undefined)
  })

  it('leads to no change without admin.console.edit, nor by an auditor', async () => {
    await using issuer = await TestIssuer.start()
    await using upstream = await startUpstream()
    const { oidc } = issuer
    const authn = `authn: { oidc: ${JSON.stringify(oidc)} }`
    const roles = 'roles: { operator: [ops], auditor: [audit] }'
    for (const [edit, role, message] of [
      ['', 'ops', 'The policy does not allow changes here (admin.console.edit).'],
      ['console: { edit: true }', 'audit', 'This is for operator, and admin.roles gives you no such role.'],
      ['console: { edit: true }', 'ops', undefined],
    ] as const) {
      const yaml = policy(upstream.url, authn).replace(
        'console: { edit: true }',
        [roles, edit].filter(Boolean).join(', '),
      )
      await using rig = await start(yaml)
      const { policy_sha256 } = (await rig.admin('/api/status')).json
      const { status, json } = await rig.admin('/api/policy/switch', {
        method: 'POST',
        headers: {
          authorization: `Bearer ${await issuer.sign({ roles: [role] })}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ server: 'crm', tool: 'find', reason: 'a test', policy_sha256 }),
      })
      expect([status, json['message']]).to.deep.equal([message === undefined ? 200 : 403, message])
      const { blocks } = (await rig.admin('/api/blocks')).json
      expect(blocks).to.have.length(message === undefined ? 1 : 0)
    }
  })

  it('is refused while one runs and four others wait', async () => {
    const parts = {
      inForce() {
        throw new Error('it ran')
      },
    } as unknown as SwitchDependencies
    const [operation] = switchOperations(parts)
    const ask = async () => {
      const error = await Promise.resolve(operation?.run({ query: {} } as never)).catch((cause) => cause)
      return error.code ?? error.message
    }
    const all = await Promise.all(Array.from({ length: 7 }, ask))
    expect(all).to.deep.equal([...Array(5).fill('it ran'), 'RATE_LIMITED', 'RATE_LIMITED'])
    expect(await ask(), 'after they have ended').to.equal('it ran')
  })
})
