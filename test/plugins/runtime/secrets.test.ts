// The key of the runtime, and other secrets in its headers: told to the runtime and to nobody else.
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect, promisify } from 'node:util'
import { expect } from 'chai'
import { svc } from '../../support/svc.js'
import { decide, type RuntimeAnswer, respond, startRig } from './rig.js'

const key = 'runtime-key-5b81c0'
const header = 'header-secret-77ad'
const query = 'query-secret-9e10'

const answers: Readonly<Record<string, RuntimeAnswer>> = {
  allows: (response) => decide(response, { action: 'allow' }),
  refuses: (response, call) => respond(response, 401, { seen: call.headers }),
  'repeats what it saw': (response, call) => response.end(JSON.stringify(call.headers)),
  redirects: (response, call) =>
    respond(response, 302, {}, { location: `http://${call.headers.host}/?k=${key}` }),
  'breaks off': (response) => response.destroy(),
}

function filesUnder(directory: string): string {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'))
    .join('\n')
}

describe('the key of a runtime', () => {
  let home: string

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  })

  afterEach(() => rmSync(home, { recursive: true, force: true }))

  for (const [what, runtime] of Object.entries(answers)) {
    it(`reaches the runtime, and no log, answer or record, when the runtime ${what}`, async () => {
      await using rig = await startRig({
        runtime,
        remote: { apiKey: key, headers: { 'X-Trust': header }, maxRetries: 0 },
      })
      const response = await rig.call()
      const told = `${inspect([...response.headers])} ${await response.text()}`
      expect(rig.asked[0]?.headers).to.include({ authorization: `Bearer ${key}`, 'x-trust': header })
      const logged = inspect(rig.gateway.log.lines, { depth: Number.POSITIVE_INFINITY, showHidden: true })
      for (const secret of [key, header]) {
        expect(told).not.to.include(secret)
        expect(logged).not.to.include(secret)
        expect(filesUnder(rig.gateway.dir)).not.to.include(secret)
      }
    })
  }

  it('may stand behind a reference, and a changed file is read again', async () => {
    writeFileSync(join(home, 'runtime.key'), `${key}\n`, { mode: 0o600 })
    let now = 0
    const clock = { now: () => now, monotonic: () => now }
    await using rig = await startRig({
      clock,
      remote: { apiKeyRef: 'file://runtime.key' },
      options: { policyYaml: 'privacy: {}\n', policyFile: join(home, 'policy.yaml') },
    })
    await rig.call()
    writeFileSync(join(home, 'runtime.key'), 'another-key\n', { mode: 0o600 })
    now = 1000
    await rig.call()
    expect(rig.asked.map(({ headers }) => headers.authorization)).to.deep.equal([
      `Bearer ${key}`,
      'Bearer another-key',
    ])
    rmSync(join(home, 'runtime.key'))
    now = 2000
    expect((await rig.call()).status).to.equal(503)
  })

  it('that no header can carry is sent nowhere', async () => {
    await using rig = await startRig({
      remote: { apiKeyRef: 'env:RUNTIME_KEY' },
      options: { env: { RUNTIME_KEY: `${key}\r\nx-evil: 1` } },
    })
    expect((await rig.call()).status).to.equal(503)
    expect(rig.asked).to.deep.equal([])
    expect(inspect(rig.gateway.log.lines, { depth: Number.POSITIVE_INFINITY })).not.to.include(key)
  })

  it('is in no explanation and no diagnosis, nor is the query of the address', async () => {
    const policy = (remote: string) => `tenant: acme
port: 0
targets: { files: "http://127.0.0.1:1" }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./audit.key } }
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
runtime: { enforcement: { mode: remote, remote: { ${remote} } } }
`
    const good = `endpoint: "https://judge.example.com/evaluate?k=${query}", apiKey: ${key}, headers: { x-trust: ${header} }`
    const bad = `endpoint: "http://judge.example.com/?k=${query}", apiKey: "${key} ", headers: { authorization: "${header}\\n" }`
    const said: string[] = []
    for (const [name, remote] of Object.entries({ good, bad })) {
      const file = join(home, `${name}.yaml`)
      writeFileSync(file, policy(remote))
      for (const args of [
        ['check', file],
        ['explain', file, '--tenant', 'acme', '--server', 'files', '--tool', 'echo@1.0.0'],
      ]) {
        const ran = promisify(execFile)(process.execPath, [svc, 'policy', ...args])
        said.push(
          await ran.then(
            ({ stdout }) => stdout,
            ({ stdout }: { stdout: string }) => stdout,
          ),
        )
      }
    }
    expect(said[1]).to.include('runtime: would ask the runtime at https://judge.example.com/evaluate;')
    expect(said[2]).to.include('must be https').and.include('remote.apiKey: holds characters')
    for (const secret of [key, header, query]) expect(said.join('\n')).not.to.include(secret)
  })
})
