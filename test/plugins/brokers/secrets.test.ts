// A secret is sent to the upstream and nowhere else: the test searches all output of a run for it.
import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { inspect } from 'node:util'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { endWithRunner } from '../../support/child-lifetime.js'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { callEcho } from '../../support/mcp-server.js'
import { runPolicy } from '../../support/policy-command.js'
import { svc } from '../../support/svc.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { json, startTokenEndpoint, type TestTokenEndpoint } from '../../support/token-endpoint.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const secrets = {
  good: 'good-9f3a51c8e2',
  stale: 'stale-77b1e0d4a6',
  broken: 'broken-c41d\nx-injected: 5e88',
  client: 'client-secret-3be7',
  exchanged: 'exchanged-6d20fa9c',
  pem: generateKeyPairSync('ec', { namedCurve: 'P-256' })
    .privateKey.export({ format: 'pem', type: 'pkcs8' })
    .toString(),
}
/** Each secret, and the parts into which it might be split. */
const needles = [
  '9f3a51c8e2',
  '77b1e0d4a6',
  'broken-c41d',
  'x-injected',
  'client-secret-3be7',
  '6d20fa9c',
  secrets.pem.split('\n')[1] ?? '',
]

/** Every encoding of a secret that a text might contain. */
function found(text: string, ...more: string[]): string[] {
  const forms = (needle: string) => [
    needle,
    ...[0, 1, 2].map((shift) =>
      Buffer.from(' '.repeat(shift) + needle)
        .toString('base64')
        .slice(4, -4),
    ),
    Buffer.from(needle).toString('hex'),
  ]
  return [...needles, ...more].filter((needle) => forms(needle).some((form) => text.includes(form)))
}

/** A server that accepts one key and echoes nothing. */
function pickyUpstream(): Promise<TestUpstream> {
  return startUpstream((call, response) => {
    const key = `${call.headers['x-api-key'] ?? ''}${call.headers.authorization ?? ''}`
    response
      .writeHead(key.includes(secrets.good) || key.includes(secrets.exchanged) ? 200 : 401, {
        'content-type': 'application/json',
      })
      .end('{}')
  })
}

/** A token endpoint that exchanges for one client, and echoes the request to another. */
async function loudEndpoint(): Promise<TestTokenEndpoint> {
  const endpoint = await startTokenEndpoint()
  endpoint.response(({ form, headers }, response) => {
    const isGood = form.get('audience') === 'good'
    const said = JSON.stringify([...form, ...Object.entries(headers), secrets.exchanged])
    if (isGood)
      json(response, 200, { access_token: secrets.exchanged, token_type: 'Bearer', expires_in: 300 })
    else if (form.get('audience') === 'refused') json(response, 400, { error: said, error_description: said })
    else response.end(`<html>${said}</html>`)
  })
  return endpoint
}

const sectionsFor = (issuer: TestIssuer, endpoint: TestTokenEndpoint): string => {
  const exchange = `type: oidc_on_behalf, token_endpoint: "${endpoint.url}", client_id: gw, inject: { header: authorization, format: bearer }`
  return `
authn: { oidc: ${JSON.stringify(issuer.oidc)} }
brokers:
  files: { type: static, key_refs: ["env:GOOD"], inject: { header: authorization, format: bearer } }
  bills: { type: vendor_key_pool, key_refs: ["file://stale.key", "env:GOOD"], inject: { header: x-api-key, format: raw } }
  worn: { type: vendor_key_pool, key_refs: ["file://stale.key"], inject: { header: x-api-key, format: template, template: "Token {{key}}" } }
  torn: { type: static, key_refs: ["file://broken.key"], inject: { header: x-api-key, format: raw } }
  behalf: { ${exchange}, audience: good, client_secret_ref: "file://client.key" }
  signed: { ${exchange}, audience: good, private_key_ref: "file://pem.key" }
  refused: { ${exchange}, audience: refused, client_secret_ref: "file://client.key", client_auth: client_secret_post }
  rubbish: { ${exchange}, audience: rubbish, private_key_ref: "file://pem.key" }
  unsigned: { ${exchange}, audience: good, private_key_ref: "file://stale.key" }
`
}
const servers = ['files', 'bills', 'worn', 'torn', 'behalf', 'signed', 'refused', 'rubbish', 'unsigned']

/** All files under the directory except the keys. */
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

async function callAll(url: string, token: string): Promise<string[]> {
  const responses: string[] = []
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
  for (const server of servers) {
    for (let n = 0; n < 2; n++) {
      const post = (path: string, body: string) => fetch(`${url}${path}`, { method: 'POST', headers, body })
      responses.push(await shown(await post(`/mcp/${server}/read@1`, '{}')))
      responses.push(await shown(await post(`/mcp/${server}`, JSON.stringify(callEcho))))
    }
  }
  responses.push(await shown(await fetch(`${url}/readyz`)))
  return responses
}

describe('brokers: secrets', () => {
  let issuer: TestIssuer
  let endpoint: TestTokenEndpoint
  let token: string

  const home = temporaryDir()
  beforeEach(async () => {
    writeFileSync(join(home.path, 'stale.key'), secrets.stale)
    writeFileSync(join(home.path, 'broken.key'), secrets.broken)
    writeFileSync(join(home.path, 'client.key'), secrets.client)
    writeFileSync(join(home.path, 'pem.key'), secrets.pem)
    generateKeyFile(join(home.path, 'audit.key'))
    issuer = await TestIssuer.start()
    endpoint = await loudEndpoint()
    token = await issuer.sign()
  })

  afterEach(async () => {
    await endpoint[Symbol.asyncDispose]()
    await issuer[Symbol.asyncDispose]()
  })

  /** The signature of the caller's token. */
  const signature = () => token.split('.')[2] ?? ''

  async function run(args: string[], until?: (line: string) => Promise<void>): Promise<string> {
    const child = endWithRunner(
      spawn(process.execPath, [svc, ...args], {
        env: { PATH: process.env['PATH'], GOOD: secrets.good },
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    )
    const exit = once(child, 'close')
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

  it('are in no log line, response, record, file or explanation of a run', async () => {
    await using upstream = await pickyUpstream()
    const targets = servers.map((server) => `${server}: "${upstream.url}"`).join(', ')
    const policy = join(home.path, 'policy.yaml')
    writeFileSync(
      policy,
      `tenant: acme
port: 0
admin: { port: 0 }
targets: { ${targets} }
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://./audit.key } }
entitlements: open
quotas: { adapter: memory }
${sectionsFor(issuer, endpoint)}`,
    )
    let responses: string[] = []
    const output = await run(
      ['gateway', '--policy', policy, '--dir', join(home.path, 'state')],
      async (line) => {
        const { url, adminUrl } = JSON.parse(line) as { url: string; adminUrl: string }
        responses = await callAll(url, token)
        for (const path of ['/metrics', '/api/escalations', '/console', '/healthz']) {
          responses.push(await shown(await fetch(`${adminUrl}${path}`)))
        }
      },
    )
    const outputs = [output, ...responses, await run(['policy', 'check', policy])]
    for (const server of servers) {
      const call = ['--tenant', 'acme', '--server', server, '--tool', 'read@1', '--user', 'ada@example.com']
      const { lines } = await runPolicy(['explain', policy, ...call], { GOOD: secrets.good })
      expect(lines.join('\n')).to.include('brokers: ')
      outputs.push(lines.join('\n'))
    }
    outputs.push(filesUnder(home.path))

    const asked = JSON.stringify(upstream.calls.map(({ headers }) => headers))
    expect(found(asked, signature()), 'what the upstream is meant to see').to.deep.equal([
      '9f3a51c8e2',
      '77b1e0d4a6',
      '6d20fa9c',
    ])
    expect(
      found(JSON.stringify(endpoint.exchanges.map(({ form }) => [...form])), signature()),
    ).to.include.members(['client-secret-3be7', signature()])
    expect(responses.filter((response) => response.startsWith('200')).length).to.be.greaterThan(10)
    // The metrics were part of the searched output.
    expect(responses.join('\n')).to.match(/svc_broker_key_cooldowns_total \d/)
    expect(output).to.include('a key of the pool is in cooldown').and.include('not allowed in a header')
    expect(outputs.flatMap((text) => found(text, signature()))).to.deep.equal([])
  })

  it('do not appear in any field of a log line, at any level and depth', async () => {
    await using upstream = await pickyUpstream()
    await using gateway = await startTestGateway({
      targets: Object.fromEntries(servers.map((server) => [server, upstream.url])),
      policyYaml: sectionsFor(issuer, endpoint),
      policyFile: join(home.path, 'policy.yaml'),
      env: { GOOD: secrets.good },
    })
    await callAll(gateway.url, token)
    const logged = inspect(gateway.log.lines, { depth: Number.POSITIVE_INFINITY, showHidden: true })
    expect(logged).to.include('BROKER_UNAVAILABLE').and.include('401')
    expect(found(logged, signature())).to.deep.equal([])
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
