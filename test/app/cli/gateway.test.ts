import { execFile } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { type Certificate, TestAuthority } from '../../support/certificates.js'
import { runCommand, runSvc } from '../../support/command.js'
import { startEverything } from '../../support/everything.js'
import { Running } from '../../support/gateway-process.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))

function policyOf(target: string): string {
  return `tenant: acme
port: 1
targets: { files: "${target}" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./key } }
entitlements: open
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
`
}

describe('svc gateway', () => {
  let policy: string

  const home = temporaryDir()
  beforeEach(() => {
    policy = join(home.path, 'policy.yaml')
    generateKeyFile(join(home.path, 'key'))
  })

  const invoke = (url: string | undefined) => fetch(`${url}/mcp/files/read@1`, { method: 'POST', body: '{}' })

  it('prints its URL, serves, and exits with 0 after SIGTERM', async () => {
    await using upstream = await startUpstream()
    writeFileSync(policy, policyOf(upstream.url))
    await using gateway = new Running(['--policy', policy, '--port', '0', '--dir', join(home.path, 'state')])
    const { url } = await gateway.line('listening')
    expect((await invoke(url)).status).to.equal(200)
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
    expect(
      readdirSync(join(home.path, 'state', 'audit')).some((name) => /^audit-.*\.ndjson$/.test(name)),
    ).to.equal(true)
  })

  it('reports the admin URL, and serves metrics there', async () => {
    writeFileSync(join(home.path, 'token'), 'the-token-of-this-one-test', { mode: 0o600 })
    const admin = 'admin: { port: 0, tokenRef: file://token }\n'
    writeFileSync(policy, `${policyOf('http://127.0.0.1:1')}${admin}`)
    await using gateway = new Running(['--policy', policy, '--port', '0'])
    const { adminUrl } = await gateway.line('listening')
    const headers = { authorization: 'Bearer the-token-of-this-one-test' }
    const response = await fetch(`${adminUrl}/metrics`, { headers })
    expect(await response.text()).to.match(/^svc_ready 1$/m)
    gateway.child.kill('SIGTERM')
    expect(await gateway.exit).to.equal(0)
  })

  it('reloads a changed certificate on SIGHUP, for clients that trust its authority by NODE_EXTRA_CA_CERTS', async () => {
    const authority = new TestAuthority(home.path)
    const other = new TestAuthority(home.path, 'Other Root')
    const install = ({ key, cert }: Certificate): void => {
      writeFileSync(join(home.path, 'tls.key'), key)
      writeFileSync(join(home.path, 'tls.crt'), cert)
    }
    install(authority.server())
    const tls = 'server: { tls: { key: file://tls.key, cert: file://tls.crt } }\n'
    writeFileSync(policy, `${policyOf('http://127.0.0.1:1')}${tls}`)
    await using gateway = new Running(['--policy', policy, '--port', '0'])
    const { url } = await gateway.line('listening')
    const healthTo = async ({ root }: TestAuthority): Promise<string> => {
      const asking = `fetch('${url}/healthz').then(async (r) => console.log(await r.text()), (e) => console.log(e.cause.code))`
      const env = { ...process.env, NODE_EXTRA_CA_CERTS: root.certFile }
      const { stdout } = await promisify(execFile)(process.execPath, ['-e', asking], { env })
      return stdout.trim()
    }
    expect(await healthTo(authority)).to.equal('{"status":"ok"}')
    expect(await healthTo(other)).to.equal('UNABLE_TO_VERIFY_LEAF_SIGNATURE')
    install(other.server())
    gateway.child.kill('SIGHUP')
    await gateway.line('policy reloaded')
    expect(await healthTo(other)).to.equal('{"status":"ok"}')
  })

  it('reloads the policy on SIGHUP, and keeps the old one when it is not valid', async () => {
    await using upstream = await startUpstream()
    writeFileSync(policy, policyOf('http://127.0.0.1:1'))
    await using gateway = new Running(['--policy', policy, '--port', '0'])
    const { url } = await gateway.line('listening')
    expect((await invoke(url)).status).to.equal(502)

    writeFileSync(policy, policyOf(upstream.url))
    gateway.child.kill('SIGHUP')
    await gateway.line('policy reloaded')
    expect((await invoke(url)).status).to.equal(200)

    writeFileSync(policy, 'tenant: [')
    gateway.child.kill('SIGHUP')
    await gateway.line('policy not reloaded; the old one stays in force')
    expect((await invoke(url)).status).to.equal(200)
  })

  it('loads a changed policy file by itself with --watch, and keeps the old policy when it is not valid', async () => {
    await using upstream = await startUpstream()
    writeFileSync(policy, policyOf('http://127.0.0.1:1'))
    await using gateway = new Running(['--policy', policy, '--port', '0', '--watch'])
    const { url } = await gateway.line('listening')
    writeFileSync(policy, policyOf(upstream.url))
    await gateway.line('policy reloaded')
    expect((await invoke(url)).status).to.equal(200)
    writeFileSync(policy, 'tenant: acme\n')
    expect((await gateway.line('policy not reloaded; the old one stays in force')).reason).to.contain(
      'quotas',
    )
    expect((await invoke(url)).status).to.equal(200)
  })

  it('serves a URL and a command without a policy, denies nothing, and prints their URLs', async () => {
    await using everything = await startEverything()
    const command = `files='${process.execPath}' ${scripted}`
    const env = { XDG_STATE_HOME: home.path, HOME: home.path }
    const targets = [command, `all=${everything.url}`, 'none=http://127.0.0.1:1']
    const args = [...targets.flatMap((target) => ['--target', target]), '--port', '0', '--admin-port', '0']
    await using gateway = new Running(args, env)
    const unknown = await gateway.line(
      'http://127.0.0.1:1 is not known to be an MCP server (The upstream refuses connections), so calls go there as plain HTTP requests; if it is one, start it first, or write mcp+http://127.0.0.1:1',
    )
    expect(unknown).to.include({ server: 'none' })
    const { endpoints = {}, log = '', url = '', adminUrl = '' } = await gateway.line('listening')
    expect((await fetch(`${adminUrl}/console`)).status).to.equal(401)
    expect(endpoints).to.deep.equal({
      ...{ files: `${url}/mcp/files`, all: `${url}/mcp/all`, none: `${url}/mcp/none` },
    })
    expect(new URL(url).hostname).to.equal('127.0.0.1')
    for (const [name, tool, args, said] of [
      ['files', 'echo', { said: 'x', path: '/etc/passwd' }, 'x'],
      ['all', 'echo', { message: 'hi' }, 'Echo: hi'],
    ] as const) {
      const client = new Client({ name: 'test', version: '1.0.0' })
      await client.connect(new StreamableHTTPClientTransport(new URL(endpoints[name] ?? '')))
      const { content } = await client.callTool({ name: tool, arguments: args })
      expect(content).to.deep.equal([{ type: 'text', text: said }])
      await client.close()
    }
    const echoed = await fetch(`${url}/mcp/all/echo@unversioned`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ message: 'by curl' }),
    })
    expect(await echoed.json()).to.deep.equal({ content: [{ type: 'text', text: 'Echo: by curl' }] })
    expect(log).to.equal(join(home.path, 'svc', 'logs', 'gateway'))
    gateway.child.kill('SIGHUP')
    expect(await gateway.exit).to.equal(0)
    const { out } = await runCommand(auditCommand, ['show', log, '--tool', 'echo', '--format', 'table'])
    expect(out).to.match(/would deny +ok .* files@3\.1\.0 +echo@3\.1\.0 +fs_violation /)
  })

  describe('exits with 1', () => {
    const valid = policyOf('http://127.0.0.1:1')
    const cases = [
      [
        'for a missing option, and names the help',
        valid,
        [],
        ['give --policy FILE, or --target URL|COMMAND', '(npx svc-sdk gateway --help lists the options)'],
      ],
      [
        'for a number of workers that cannot be',
        valid,
        ['--policy', 'policy.yaml', '--workers', '0'],
        ['--workers: "0" is given; expected 1 to 256, or auto'],
      ],
      [
        'for --watch without a policy file',
        valid,
        ['--target', 'http://127.0.0.1:1', '--watch'],
        ['--watch is for --policy'],
      ],
      ['for an invalid port', valid, ['--policy', 'policy.yaml', '--port', '99999'], ['expected 0 to 65535']],
    ] as const
    for (const [title, text, args, messages] of cases) {
      it(title, async () => {
        writeFileSync(policy, text)
        const { code, err } = await runSvc(
          'gateway',
          ...args.map((arg) => (arg.endsWith('.yaml') ? policy : arg)),
        )
        expect(code).to.equal(1)
        for (const message of messages) expect(err).to.contain(message)
      })
    }

    it('as a process, with the reason on stderr', async () => {
      await using gateway = new Running(['--policy', join(home.path, 'none.yaml')])
      expect(await gateway.exit).to.equal(1)
      expect(gateway.stderr).to.match(/none\.yaml cannot be read/)
    })
  })
})
