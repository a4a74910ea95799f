// `--policy FILE` says where the log of a gateway is, and how to reach its admin listener.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { commandPath } from 'svc-sdk/internal/cli/manual'
import { adminUrlOf } from 'svc-sdk/internal/cli/policy-gateway'
import { programFor } from 'svc-sdk/internal/cli/program'
import { appenderIn, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { runSvc } from '../../support/command.js'
import { startTestGateway } from '../../support/gateway.js'
import { temporaryDir } from '../../support/temporary-dir.js'

const leaves = (await programFor()).commands.flatMap((command) =>
  command.commands.length === 0 ? [command] : command.commands,
)
/** The commands that are given a log as a directory or by a policy. */
const ofLog = leaves.filter(
  ({ options, registeredArguments: [first] }) =>
    options.some(({ long }) => long === '--policy') && /^dirs?$/.test(first?.name() ?? ''),
)
/** What they need beside the log. */
const needed: Readonly<Record<string, readonly string[]>> = {
  'audit tiles': ['--out', 'tiles'],
  'keys rotate': ['--from', 'key', '--to', 'key'],
  'keys revoke': ['--key-id', 'ed25519:00', '--sign-with', 'key'],
}

describe('--policy', () => {
  const dir = temporaryDir()

  function policyFile(more: Record<string, unknown>, audit: Record<string, unknown> = {}): string {
    const file = join(dir.path, 'policy.yaml')
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: {},
      audit: { gatewayName: 'edge', gatewayVersion: '1', signer: { keyRef: 'file://key' }, ...audit },
      entitlements: 'open',
      quotas: { adapter: 'memory' },
      ...more,
    }
    writeFileSync(file, JSON.stringify(policy))
    return file
  }

  for (const [title, place, audit, log] of [
    ['below sec0Dir', { sec0Dir: 'state' }, {}, 'state/audit'],
    ['at audit.dir', { sec0Dir: 'state' }, { dir: 'records' }, 'records'],
    ['at the default', {}, {}, '.svc/audit'],
  ] as const) {
    it(`finds the log ${title}`, async () => {
      const appender = appenderIn(join(dir.path, log), { signer })
      await appender.append(envelope())
      await appender.close()
      const file = policyFile(place, audit)
      for (const command of ['stats', 'show', 'vkey', 'verify']) {
        const named = await runSvc('audit', command, join(dir.path, log))
        expect([named.code, named.out !== '']).to.deep.equal([0, true])
        expect(await runSvc('audit', command, '--policy', file)).to.deep.equal(named)
      }
    })
  }

  for (const command of ofLog) {
    const [, ...path] = commandPath(command).split(' ')
    const name = path.join(' ')
    const more = needed[name] ?? []
    it(`of ${name} is needed if the log is not named`, async () => {
      const { err } = await runSvc(...path, ...more)
      expect(err).to.equal(`svc-sdk ${name}: give the directory of the log, or --policy FILE\n`)
      const both = await runSvc(...path, dir.path, ...more, '--policy', policyFile({}))
      expect(both.err).to.equal(`svc-sdk ${name}: give the directory of the log or --policy, not both\n`)
    })
  }

  it('of audit names the first mistake of a policy that is not valid', async () => {
    const file = policyFile({ port: -1, quota: {} })
    const { err, code } = await runSvc('audit', 'stats', '--policy', file)
    expect([err, code]).to.deep.equal([
      `svc-sdk audit stats: ${file}:1:18 port: -1 is given; accepted is at least 0\n`,
      1,
    ])
  })

  it('of escalations finds the admin listener and the admin token', async () => {
    const token = 'the-admin-token-of-the-tests'
    mkdirSync(join(dir.path, 'keys'))
    writeFileSync(join(dir.path, 'keys/token'), token, { mode: 0o600 })
    await using gateway = await startTestGateway({
      targets: {},
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      env: { SVC_ADMIN: token },
    })
    const { adminUrl = '' } = await gateway.handle.ready()
    const admin = { port: Number(new URL(adminUrl).port), tokenRef: 'file://keys/token' }
    const listed = await runSvc('escalations', 'list', '--policy', policyFile({ admin }))
    expect(listed).to.deep.equal({ out: 'none that are pending\n', err: '', code: 0 })
    writeFileSync(join(dir.path, 'keys/token'), `other-${token}`, { mode: 0o600 })
    const refused = await runSvc('escalations', 'list', '--policy', policyFile({ admin }))
    expect(refused.err).to.match(/^svc-sdk escalations list: UNAUTHENTICATED/)
    const unknown = await runSvc('escalations', 'list', '--policy', policyFile({}))
    expect(unknown.err).to.match(/: no section admin, so the gateway has no admin listener\n$/)
  })

  it('gives the URL at which the admin listener is reached from its machine', () => {
    const tls = {} as never
    for (const [admin, url] of [
      [{ port: 1, host: '127.0.0.1' }, 'http://127.0.0.1:1'],
      [{ port: 1, host: '0.0.0.0', tls }, 'https://127.0.0.1:1'],
      [{ port: 1, host: '::' }, 'http://[::1]:1'],
      [{ port: 1, host: 'ops.internal', tls }, 'https://ops.internal:1'],
    ] as const) {
      expect(adminUrlOf('policy.yaml', admin)).to.equal(url)
    }
    const any = { port: 0, host: '127.0.0.1' }
    expect(() => adminUrlOf('policy.yaml', any)).to.throw('policy.yaml: admin.port is 0; give --admin with')
  })
})
