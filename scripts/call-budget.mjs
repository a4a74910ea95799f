#!/usr/bin/env node
// Counts the functions of this repository that one warm call enters, by V8's precise call counts, and fails above the
// budget in call-budget.json: a feature pays for what it adds to every call. `--show` prints the files.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startGatewayServer } from '../app/dist/gateway/index.js'
import { generateKeyFile } from '../plugins/audit/dist/log/index.js'

const WARM_UP = 40
const CALLS = 20
const ROUNDS = 3
const root = new URL('../', import.meta.url)
const budgetFile = new URL('call-budget.json', import.meta.url)
const budgets = JSON.parse(readFileSync(budgetFile, 'utf8'))

const upstream = createServer((request, response) => {
  let text = ''
  request.on('data', (chunk) => {
    text += chunk
  })
  request.on('end', () => {
    response.setHeader('content-type', 'application/json')
    if (request.url.startsWith('/plain')) return response.end('{"ok":true,"amount":3}')
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method } = JSON.parse(text)
    if (id === undefined) return response.writeHead(202).end()
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: resultOf(method) }))
  })
})

function resultOf(method) {
  if (method === 'tools/list') return { tools: [{ name: 'get_invoice', inputSchema: { type: 'object' } }] }
  if (method === 'tools/call') return { content: [{ type: 'text', text: 'fine' }] }
  const serverInfo = { name: 'notes', version: '1.0.0' }
  return { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo }
}

/** Every section that a usual policy has. */
const policyFor = (address) => `
tenant: acme
port: 0
server: { host: 127.0.0.1 }
targets: { billing: "http://${address}/plain", notes: "mcp+http://${address}/mcp" }
audit: { gatewayName: budget, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
authn: { allowUnauthenticated: true }
entitlements: { default_plan: p, plans: { p: { calls_per_day: 1000000, allowlist: [] } }, tenants: { acme: { plan: p, allowlist: ["billing/*", "notes/*"] } } }
quotas: { adapter: memory }
security: { limits: { max_payload_kb: 64, max_duration_ms: 10000 } }
enforcement: { mode: enforce }
dedupe: { enabled: true }
privacy: { redact_identities: true }
federation: { servers: [notes] }
`

async function post(url, body, headers = {}) {
  const accept = 'application/json, text/event-stream'
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept, ...headers },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`)
  return { response, text }
}

/** Opens a session, and returns a function that calls its tool. */
async function toolCaller(url) {
  const rpc = (id, method, params) => ({ jsonrpc: '2.0', id, method, params })
  const protocolVersion = '2025-06-18'
  const hello = { protocolVersion, capabilities: {}, clientInfo: { name: 'budget', version: '1' } }
  const { response } = await post(url, rpc(1, 'initialize', hello))
  const headers = { 'mcp-protocol-version': protocolVersion }
  const session = response.headers.get('mcp-session-id')
  if (session !== null) headers['mcp-session-id'] = session
  await post(url, rpc(undefined, 'notifications/initialized'), headers)
  const { text } = await post(url, rpc(2, 'tools/list', {}), headers)
  const [, name] = /"name":"([^"]*get_invoice)"/.exec(text)
  let id = 2
  return () => post(url, rpc(++id, 'tools/call', { name, arguments: { a: 1 } }), headers)
}

const session = new Session()

/** The functions entered since the last time, with their counts. */
async function entered() {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  return result
    .filter(
      ({ url }) => url.startsWith(root.href) && url.includes('/dist/') && !url.includes('/node_modules/'),
    )
    .flatMap(({ url, functions }) =>
      functions
        .map(({ ranges: [{ count, startOffset }] }) => ({
          file: url.slice(root.href.length),
          count,
          startOffset,
        }))
        // The function at 0 is the module itself.
        .filter(({ count, startOffset }) => count > 0 && startOffset > 0),
    )
}

/** The least of several rounds: in one of them the log may be sealed, which hashes the records of many calls. */
async function measured(call) {
  for (let i = 0; i < WARM_UP; i++) await call()
  const rounds = []
  for (let round = 0; round < ROUNDS; round++) rounds.push(await oneRound(call))
  return rounds.reduce((least, one) => (one.entries < least.entries ? one : least))
}

async function oneRound(call) {
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await entered()
  for (let i = 0; i < CALLS; i++) await call()
  // What runs less often than the call, such as a look at a store, is not part of it.
  const functions = (await entered()).filter(({ count }) => count >= CALLS * 0.9)
  await session.post('Profiler.stopPreciseCoverage')
  const sum = (chosen) => Math.round(chosen.reduce((total, { count }) => total + count, 0) / CALLS)
  const files = Map.groupBy?.(functions, ({ file }) => file) ?? grouped(functions)
  return {
    entries: sum(functions),
    functions: functions.length,
    files: files.size,
    'entries in core/call and core/pipeline': sum(
      functions.filter(({ file }) => /^core\/dist\/(call|pipeline)\//.test(file)),
    ),
    byFile: [...files].map(([file, chosen]) => [file, sum(chosen)]).sort(([, a], [, b]) => b - a),
  }
}

function grouped(functions) {
  const files = new Map()
  for (const one of functions) files.set(one.file, [...(files.get(one.file) ?? []), one])
  return files
}

const directory = mkdtempSync(join(tmpdir(), 'svc-call-budget-'))
await new Promise((resolve) => upstream.listen(0, '127.0.0.1', resolve))
await generateKeyFile(join(directory, 'key'))
const policyFile = join(directory, 'policy.yaml')
writeFileSync(policyFile, policyFor(`127.0.0.1:${upstream.address().port}`))
const gateway = startGatewayServer({ policyFile, sec0Dir: directory, env: {} })
const mistakes = []
try {
  const { url } = await gateway.ready()
  session.connect()
  await session.post('Profiler.enable')
  const calls = {
    invoke: () => post(`${url}/mcp/billing/get_invoice@1.0.0`, { invoice: 'a' }),
    'tools/call at /mcp/<server>': await toolCaller(`${url}/mcp/notes`),
    'tools/call at /mcp': await toolCaller(`${url}/mcp`),
  }
  for (const [name, call] of Object.entries(calls)) {
    const { byFile, ...found } = await measured(call)
    console.log(
      `${name}: ${Object.entries(found)
        .map(([what, n]) => `${n} ${what}`)
        .join(', ')}`,
    )
    if (process.argv.includes('--show')) for (const [file, count] of byFile) console.log(`${count}\t${file}`)
    for (const [what, most] of Object.entries(budgets[name])) {
      if (found[what] > most)
        mistakes.push(`${name}: ${found[what]} ${what}, more than the budget of ${most}`)
    }
  }
} finally {
  await gateway.close()
  upstream.close()
  rmSync(directory, { recursive: true, force: true })
}
for (const mistake of mistakes) console.error(`${mistake} (${fileURLToPath(budgetFile)})`)
process.exit(mistakes.length === 0 ? 0 : 1)
