// `npm run demo`: the tour, unattended, with real parts on free ports in a temporary directory. Exits with 0 only when
// every step passes.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { messageOf } from 'svc-sdk/core/json'
import { policyFor, startExampleGateway } from './gateway.js'
import { protections, startNotes } from './protections.js'
import { severalServers, startSeveralServers } from './several-servers.js'
import { svc } from './svc.js'
import { startToolServer } from './tool-server.js'
import { type Step, type Tour, tour } from './tour.js'

type Closer = readonly [what: string, close: () => Promise<void>]

const closers: Closer[] = []
let failures = 0

try {
  failures += await walk(await setUp(), [...tour, ...severalServers, ...protections])
} catch (error) {
  failures++
  console.log(`✗ The set-up failed: ${messageOf(error)}`)
}
failures += await closeAll()

console.log(failures === 0 ? '\nAll steps passed.' : '\nA step failed.')
process.exitCode = failures === 0 ? 0 : 1

async function setUp(): Promise<Tour> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-demo-'))
  closers.push(['the temporary directory', () => rm(directory, { recursive: true, force: true })])
  const tools = await startToolServer()
  closers.push(['the tool server', () => tools.close()])

  const policyYaml = policyFor(tools.url, 0)
  const policyFile = join(directory, 'policy.yaml')
  await writeFile(policyFile, policyYaml)
  const { handle, url, adminUrl, tokenFile, auditDir, keyFile } = await startExampleGateway(
    policyYaml,
    policyFile,
    0,
  )
  closers.push(['the gateway', () => handle.close()])

  const several = await startSeveralServers(directory, tools.url)
  closers.push(['the gateway of several servers', several.close])
  const notes = await startNotes(directory, keyFile, tokenFile)
  closers.push(['the gateway of the notes', notes.close])

  return {
    client: await connect(`${url}/mcp/billing`),
    direct: await connect(tools.url),
    gatewayUrl: url,
    escalations: (...args) =>
      svc('escalations', ...args, '--admin', adminUrl, '--token-ref', `file://${tokenFile}`),
    tools,
    severalServers: several,
    notes,
    auditDir,
    keyFile,
    directory,
    stopGateway: () => handle.close(),
  }
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ name: 'demo', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  closers.push([`the client of ${url}`, () => client.close()])
  return client
}

/** The number of failed steps: none or one, as later steps depend on it. */
async function walk(stage: Tour, steps: readonly Step[]): Promise<number> {
  for (const [at, { title, run }] of steps.entries()) {
    console.log(`\n${at + 1}. ${title}`)
    try {
      for (const line of await run(stage)) console.log(`   ${line.replaceAll('\n', '\n   ')}`)
      console.log('   ✓')
    } catch (error) {
      console.log(`   ✗ ${messageOf(error)}`)
      return 1
    }
  }
  return 0
}

/** Closes the parts in reverse order; returns the number that did not close. */
async function closeAll(): Promise<number> {
  let failed = 0
  for (const [what, close] of closers.reverse()) {
    try {
      await close()
    } catch (error) {
      failed++
      console.log(`✗ ${what} did not close: ${messageOf(error)}`)
    }
  }
  return failed
}
