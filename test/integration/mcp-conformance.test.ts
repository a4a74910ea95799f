// The public conformance suites of MCP, against a server directly and through the gateway: the results must be equal. As one of
// several servers it has sessions of the gateway, so that more is checked.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { startTestGateway } from '../support/gateway.js'
import { Running } from '../support/gateway-process.js'
import { STATELESS, startServerOfEachRevision } from '../support/mcp-revisions.js'
import { startMcpRoutes } from '../support/mcp-routes.js'
import { ofSuite } from '../support/parts.js'
import { startRedis } from '../support/redis.js'
import { startRoundRobin } from '../support/round-robin.js'
import { runtimes } from '../support/runtimes.js'
import { startStdioOverHttp } from '../support/stdio-over-http.js'
import { startTaskServer } from '../support/task-server.js'
import { TemporaryDir } from '../support/temporary-dir.js'

const newest = fileURLToPath(import.meta.resolve('@modelcontextprotocol/conformance/dist/index.js'))
const stable = fileURLToPath(import.meta.resolve('conformance-stable/dist/index.js'))

/** The suites need a newer Node than the gateway. */
function node(): string {
  const found = runtimes().find(({ version }) => Number(version.split('.', 1)[0]) >= 22)
  if (found === undefined) throw new Error('no Node 22 is installed in test/runtimes')
  return found.node
}

interface Check {
  readonly id: string
  readonly description: string
  readonly status: string
}

/** The checks, each as `<scenario> <id> <description>: <status>`, sorted. */
async function resultsOf(program: string, url: string, options: readonly string[]): Promise<string[]> {
  using dir = new TemporaryDir()
  const args = [program, 'server', '--url', url, '--suite', 'all', '--output-dir', dir.path, ...options]
  // Its exit code is 1 if a check fails; the results name it.
  await new Promise<void>((resolve) => execFile(node(), args, { cwd: dir.path }, () => resolve()))
  return readdirSync(dir.path)
    .flatMap((folder) => {
      const scenario = folder.replace(/-\d{4}-\d{2}-\d{2}T.*$/, '')
      const checks = JSON.parse(readFileSync(join(dir.path, folder, 'checks.json'), 'utf8')) as Check[]
      return checks.map(({ id, description, status }) => `${scenario} ${id} ${description}: ${status}`)
    })
    .sort()
}

/**
 * What the gateway adds: a session for a client that declares elicitation, where the server has none (MCP 2025-11-25, "Session
 * Management": a server may assign one). By a check of the server, the checks in its place.
 */
const ofOwnSession: Readonly<Record<string, readonly string[]>> = {
  'server-server-sse-multiple-streams server-sse-multiple-streams-session Server provides session ID for multiple streams test: WARNING':
    [
      'server-server-sse-multiple-streams server-accepts-multiple-post-streams Server allows multiple concurrent POST requests (each may return SSE or JSON): SUCCESS',
      'server-server-sse-multiple-streams server-sse-streams-functional Multiple POST SSE streams should be functional: SUCCESS',
    ],
  'server-server-sse-polling server-sse-polling-session Server provides session ID for SSE polling tests: WARNING':
    [],
}

describe('the conformance suites of MCP', function () {
  this.timeout(120_000)
  const direct = new Map<string, Promise<string[]>>()
  /** The results of a server without a gateway, of which each suite runs once. */
  function resultsDirectly(program: string, server: string, options: readonly string[]): Promise<string[]> {
    const key = JSON.stringify([program, server, options])
    const results = direct.get(key) ?? resultsOf(program, routes.to(server, 'directly'), options)
    direct.set(key, results)
    return results
  }

  const routes = ofSuite(async () => startMcpRoutes(await startServerOfEachRevision()))

  // The newest server serves older revisions too, but without sessions, which is all that the suite tries of 2025-03-26.
  for (const [what, program, options, server, passed, instead] of [
    ['0.1.16', stable, [], STATELESS, 20, ofOwnSession],
    ['0.2.0-alpha.12 for 2025-03-26', newest, ['--spec-version', '2025-03-26'], '2025-03-26', 1, {}],
    ['0.2.0-alpha.12 for 2025-06-18', newest, ['--spec-version', '2025-06-18'], STATELESS, 45, {}],
    ['0.2.0-alpha.12 for 2025-11-25', newest, ['--spec-version', '2025-11-25'], STATELESS, 50, ofOwnSession],
    ['0.2.0-alpha.12 for 2026-07-28', newest, ['--spec-version', '2026-07-28'], STATELESS, 105, {}],
  ] as const) {
    it(`have the same results through the gateway as directly, but for its sessions, and no other failures at /mcp: ${what}`, async () => {
      const direct = await resultsDirectly(program, server, options)
      const through = await resultsOf(program, routes.to(server, 'through a gateway'), options)
      expect(direct.filter((check) => check.endsWith(': SUCCESS')).length).to.be.at.least(passed)
      expect(direct).to.include.members(Object.keys(instead))
      const expected = direct.flatMap((check) => (instead as typeof ofOwnSession)[check] ?? [check])
      expect(through).to.deep.equal(expected.sort())
      await using several = await startTestGateway({
        targets: { server: routes.to(server, 'directly') },
        federation: { prefix: 'never' },
      })
      const among = await resultsOf(program, `${several.url}/mcp`, options)
      const ending = (results: readonly string[], status: string) =>
        results.filter((check) => check.endsWith(status))
      expect(among).to.include.members(ending(direct, ': SUCCESS'))
      expect(direct).to.include.members(ending(among, ': FAILURE'))
    })
  }

  for (const [version, more] of [
    ['2025-11-25', []],
    // A method that no server of the policy is known to have.
    ['2026-07-28', ['server-server-stateless sep-2575-http-server-method-not-found-404']],
  ] as const) {
    it(`have under the preset guard the results of the server directly, but for what it refuses: ${version}`, async () => {
      using dir = new TemporaryDir()
      const direct = routes.to(STATELESS, 'directly')
      const target = ['--preset', 'guard', '--target', `server=${direct}`]
      await using gateway = new Running([...target, '--port', '0', '--admin-port', '0', '--dir', dir.path])
      const { endpoints } = await gateway.line('listening')
      const options = ['--spec-version', version]
      const through = await resultsOf(newest, endpoints?.['server'] ?? '', options)
      const expected = (await resultsDirectly(newest, STATELESS, options)).flatMap(
        (check) => ofOwnSession[check] ?? [check],
      )
      const refused = expected.filter((check) => check.endsWith(': SUCCESS') && !through.includes(check))
      expect(refused.map((check) => check.split(' ').slice(0, 2).join(' '))).to.have.members([
        // A URI in an argument of a prompt, with a scheme that its egress_allowlist does not have.
        'server-prompts-get-embedded-resource prompts-get-embedded-resource',
        ...more,
      ])
    })
  }

  it('have no failure in the scenarios of tasks with two gateways and over stdio, at one server and at several', async () => {
    await using redis = await startRedis()
    await using server = await startTaskServer()
    const targets = { server: server.url }
    const quotas = { adapter: 'redis', redisUrl: redis.url }
    const settings = { targets, quotas, federation: { prefix: 'never' } } as const
    await using first = await startTestGateway(settings)
    await using second = await startTestGateway(settings)
    await using balancer = await startRoundRobin([first.url, second.url])
    const overStdio = { targets, federation: { prefix: 'never' } } as const
    await using stdio = await startStdioOverHttp(overStdio, 'server')
    await using stdioOfAll = await startStdioOverHttp(overStdio)
    // Over stdio there are no headers to validate.
    const ofHeaders = /reject.*-mismatched-/
    const ways = [
      { url: `${balancer.url}/mcp/server`, failing: 0 },
      { url: `${balancer.url}/mcp`, failing: 0 },
      { url: stdio.url, failing: 2 },
      { url: stdioOfAll.url, failing: 2 },
    ]
    const results = await Promise.all(ways.map(({ url }) => resultsOf(newest, url, [])))
    for (const [at, { url, failing }] of ways.entries()) {
      const ofTasks = results[at]?.filter((check) => /^\S*tasks-/.test(check)) ?? []
      // The suite itself skips one.
      const failed = ofTasks.filter((check) => !/: (?:SUCCESS|SKIPPED)$/.test(check))
      expect(failed, url).to.have.length(failing)
      for (const check of failed) expect(check).to.match(ofHeaders)
      expect(ofTasks.filter((check) => check.endsWith(': SUCCESS'))).to.have.length(44 - failing)
    }
  })
})
