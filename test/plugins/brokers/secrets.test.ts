// A secret leaves the gateway upstream and nowhere else: everything a run puts out is searched for it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { inspect } from 'node:util'
import { generateKeyFile } from '@svc/plugin-audit'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { callEcho } from '../../support/mcp-server.js'
import { svc } from '../../support/svc.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const secrets = {
  good: 'good-9f3a51c8e2',
  stale: 'stale-77b1e0d4a6',
  broken: 'broken-c41d\nx-injected: 5e88',
}
/** What a search must not find: each secret, and the parts into which it might have been broken. */
const needles = ['9f3a51c8e2', '77b1e0d4a6', 'broken-c41d', 'x-injected']

/** Every form in which a text might carry one of them. */
function found(text: string): string[] {
  const forms = (needle: string) => [
    needle,
    ...[0, 1, 2].map((shift) =>
      Buffer.from(' '.repeat(shift) + needle)
        .toString('base64')
        .slice(4, -4),
    ),
    Buffer.from(needle).toString('hex'),
  ]
  return needles.filter((needle) => forms(needle).some((form) => text.includes(form)))
}

/** A server that takes one key only and echoes nothing. */
function pickyUpstream(): Promise<TestUpstream> {
  return startUpstream((call, response) => {
    const key = `${call.headers['x-api-key'] ?? ''}${call.headers.authorization ?? ''}`
    response
      .writeHead(key.includes(secrets.good) ? 200 : 401, { 'content-type': 'application/json' })
      .end('{}')
  })
}

const sections = `
brokers:
  files: { type: static, key_refs: ["env:GOOD"], inject: { header: authorization, format: bearer } }
  bills: { type: vendor_key_pool, key_refs: ["file://stale.key", "env:GOOD"], inject: { header: x-api-key, format: raw } }
  worn: { type: vendor_key_pool, key_refs: ["file://stale.key"], inject: { header: x-api-key, format: template, template: "Token {{key}}" } }
  torn: { type: static, key_refs: ["file://broken.key"], inject: { header: x-api-key, format: raw } }
`
const servers = ['files', 'bills', 'worn', 'torn']

/** Everything under the directory but the keys themselves. */
function filesUnder(directory: string): string {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile() && !path.endsWith('.key'))
    .map((path) => `${path}\n${readFileSync(path, 'latin1')}`)
    .join('\n')
}

async function shown(response: Response): Promise<string> {
  return `${response.status} ${JSON.stringify([...response.headers])} ${await response.text()}`
}

async function callAll(url: string): Promise<string[]> {
  const answers: string[] = []
  for (const server of servers) {
    for (let n = 0; n < 2; n++) {
      const post = (path: string, body: string) =>
        fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      answers.push(await shown(await post(`/mcp/${server}/read@1`, '{}')))
      answers.push(await shown(await post(`/mcp/${server}`, JSON.stringify(callEcho))))
    }
  }
  answers.push(await shown(await fetch(`${url}/readyz`)))
  return answers
}

describe('brokers: secrets', () => {
  let home: string

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    writeFileSync(join(home, 'stale.key'), secrets.stale)
    writeFileSync(join(home, 'broken.key'), secrets.broken)
    generateKeyFile(join(home, 'audit.key'))
  })

  afterEach(() => rmSync(home, { recursive: true, force: true }))

  async function run(args: string[], until?: (line: string) => Promise<void>): Promise<string> {
    const child = spawn(process.execPath, [svc, ...args], {
      env: { PATH: process.env['PATH'], GOOD: secrets.good },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const exit = once(child, 'exit')
    const output: string[] = []
    child.stderr.setEncoding('utf8').on('data', (text: string) => output.push(text))
    for await (const line of createInterface(child.stdout)) {
      output.push(line)
      if (until === undefined || !line.includes('"listening"')) continue
      await until(line)
      child.kill('SIGTERM')
    }
    await exit
    return output.join('\n')
  }

  it('are in no log line, answer, record, file or explanation of a run', async () => {
    await using upstream = await pickyUpstream()
    const targets = servers.map((server) => `${server}: "${upstream.url}"`).join(', ')
    const policy = join(home, 'policy.yaml')
    writeFileSync(
      policy,
      `tenant: acme
port: 0
targets: { ${targets} }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./audit.key } }
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
${sections}`,
    )
    let answers: string[] = []
    const output = await run(['gateway', '--policy', policy, '--dir', join(home, 'state')], async (line) => {
      answers = await callAll((JSON.parse(line) as { url: string }).url)
    })
    const outputs = [output, ...answers, await run(['policy', 'check', policy])]
    for (const server of servers) {
      const call = ['--tenant', 'acme', '--server', server, '--tool', 'read@1']
      outputs.push(await run(['policy', 'explain', policy, ...call]))
    }
    outputs.push(filesUnder(home))

    const asked = JSON.stringify(upstream.calls.map(({ headers }) => headers))
    expect(found(asked), 'the keys that a header can carry reached the upstream').to.deep.equal(
      needles.slice(0, 2),
    )
    expect(answers.filter((answer) => answer.startsWith('200')).length).to.be.greaterThan(4)
    expect(output).to.include('a key of the pool rests').and.include('no header can carry')
    expect(outputs.flatMap(found)).to.deep.equal([])
  })

  it('are in no field of what is logged, at any level and any depth', async () => {
    await using upstream = await pickyUpstream()
    const gateway = await startTestGateway({
      targets: Object.fromEntries(servers.map((server) => [server, upstream.url])),
      policyYaml: sections,
      policyFile: join(home, 'policy.yaml'),
      env: { GOOD: secrets.good },
    })
    try {
      await callAll(gateway.url)
    } finally {
      await gateway[Symbol.asyncDispose]()
    }
    const logged = inspect(gateway.log.lines, { depth: Number.POSITIVE_INFINITY, showHidden: true })
    expect(logged).to.include('BROKER_UNAVAILABLE').and.include('401')
    expect(found(logged)).to.deep.equal([])
  })

  it('would be found by this search', () => {
    for (const form of [
      secrets.good,
      Buffer.from(`user:${secrets.good}`).toString('base64'),
      Buffer.from(secrets.good).toString('hex'),
      inspect(new Error('x', { cause: { headers: [secrets.good] } }), { depth: 9 }),
    ]) {
      expect(found(`before ${form} after`)).to.deep.equal(['9f3a51c8e2'])
    }
  })
})
