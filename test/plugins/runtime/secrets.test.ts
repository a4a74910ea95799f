// The runtime's API key and header values must reach the runtime and nothing else.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { expect } from 'chai'
import { runPolicy } from '../../support/policy-command.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { decide, type RuntimeHandler, respond, startSetup } from './gateway.js'

const key = 'runtime-key-5b81c0'
const header = 'header-secret-77ad'
const query = 'query-secret-9e10'

const responses: Readonly<Record<string, RuntimeHandler>> = {
  allows: (response) => decide(response, { action: 'allow' }),
  refuses: (response, call) => respond(response, 401, { seen: call.headers }),
  'echoes the request': (response, call) => response.end(JSON.stringify(call.headers)),
  redirects: (response, call) =>
    respond(response, 302, {}, { location: `http://${call.headers.host}/?k=${key}` }),
  'closes the connection': (response) => response.destroy(),
}

function filesUnder(directory: string): string {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'))
    .join('\n')
}

describe('the API key of a runtime', () => {
  const home = temporaryDir()

  for (const [what, runtime] of Object.entries(responses)) {
    it(`reaches only the runtime, not a log, response or record, when the runtime ${what}`, async () => {
      await using setup = await startSetup({
        runtime,
        remote: { apiKey: key, headers: { 'X-Trust': header }, maxRetries: 0 },
      })
      const response = await setup.call()
      const received = `${inspect([...response.headers])} ${await response.text()}`
      expect(setup.runtimeRequests[0]?.headers).to.include({
        authorization: `Bearer ${key}`,
        'x-trust': header,
      })
      const logged = inspect(setup.gateway.log.lines, { depth: Number.POSITIVE_INFINITY, showHidden: true })
      for (const secret of [key, header]) {
        expect(received).not.to.include(secret)
        expect(logged).not.to.include(secret)
        expect(filesUnder(setup.gateway.dir)).not.to.include(secret)
      }
    })
  }

  it('can be a reference, and a changed file takes effect', async () => {
    writeFileSync(join(home.path, 'runtime.key'), `${key}\n`, { mode: 0o600 })
    let now = 0
    const clock = { now: () => now, monotonic: () => now }
    await using setup = await startSetup({
      clock,
      remote: { apiKeyRef: 'file://runtime.key' },
      gateway: { policyYaml: 'privacy: {}\n', policyFile: join(home.path, 'policy.yaml') },
    })
    await setup.call()
    writeFileSync(join(home.path, 'runtime.key'), 'another-key\n', { mode: 0o600 })
    now = 1000
    await setup.call()
    expect(setup.runtimeRequests.map(({ headers }) => headers.authorization)).to.deep.equal([
      `Bearer ${key}`,
      'Bearer another-key',
    ])
    rmSync(join(home.path, 'runtime.key'))
    now = 2000
    expect((await setup.call()).status).to.equal(503)
  })

  it('is never sent if it is not a valid header value', async () => {
    await using setup = await startSetup({
      remote: { apiKeyRef: 'env:RUNTIME_KEY' },
      gateway: { env: { RUNTIME_KEY: `${key}\r\nx-evil: 1` } },
    })
    expect((await setup.call()).status).to.equal(503)
    expect(setup.runtimeRequests).to.deep.equal([])
    expect(inspect(setup.gateway.log.lines, { depth: Number.POSITIVE_INFINITY })).not.to.include(key)
  })

  it('is not in explanations or diagnostics, nor is the query of the endpoint', async () => {
    const policy = (remote: string) => `tenant: acme
port: 0
targets: { files: "http://127.0.0.1:1" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./audit.key } }
entitlements: open
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
runtime: { enforcement: { mode: remote, remote: { ${remote} } } }
`
    const valid = `endpoint: "https://runtime.example.com/evaluate?k=${query}", apiKey: ${key}, headers: { x-trust: ${header} }`
    const invalid = `endpoint: "http://runtime.example.com/?k=${query}", apiKey: "${key} ", headers: { authorization: "${header}\\n" }`
    const outputs: string[] = []
    for (const [name, remote] of Object.entries({ valid, invalid })) {
      const file = join(home.path, `${name}.yaml`)
      writeFileSync(file, policy(remote))
      for (const args of [
        ['check', file],
        ['explain', file, '--tenant', 'acme', '--server', 'files', '--tool', 'echo@1.0.0'],
      ]) {
        outputs.push((await runPolicy(args)).lines.join('\n'))
      }
    }
    expect(outputs[1]).to.include('runtime: is not asked here')
    expect(outputs[2]).to.include('must be https').and.include('remote.apiKey: contains characters')
    for (const secret of [key, header, query]) expect(outputs.join('\n')).not.to.include(secret)
  })
})
