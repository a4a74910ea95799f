// examples/observability, as its one command starts it: the queries of its dashboards and the expressions of its alerts run on
// Debian's Prometheus with what it has read from a real gateway.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { parse } from 'yaml'
import { endWithRunner } from '../../support/child-lifetime.js'
import { allMetrics } from '../../support/metric-reference.js'
import { until } from '../../support/redis.js'

const example = fileURLToPath(new URL('../../../../examples/observability/', import.meta.url))
const page = fileURLToPath(new URL('../../../../docs/operations/alerts.md', import.meta.url))
const rulesFile = join(example, 'prometheus', 'alerts.yml')

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string; readonly runbook_url: string }
}

const { groups } = parse(readFileSync(rulesFile, 'utf8')) as { groups: { rules: Rule[] }[] }
const rules = groups.flatMap((group) => group.rules)

interface Query {
  readonly panel: string
  readonly expr: string
}

const queries: readonly Query[] = readdirSync(join(example, 'grafana'))
  .filter((file) => file.endsWith('.json'))
  .flatMap((file) => {
    const { panels } = JSON.parse(readFileSync(join(example, 'grafana', file), 'utf8')) as {
      panels: { title: string; targets: { expr: string }[] }[]
    }
    return panels.flatMap(({ title, targets }) =>
      targets.map(({ expr }) => ({ panel: `${file}: ${title}`, expr })),
    )
  })

const isInstalled = ['prometheus', 'promtool'].every(
  (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined,
)

describe('the alerts of examples/observability', () => {
  it('have a section each on the page that says what they mean, which has no other', () => {
    const sections = [...readFileSync(page, 'utf8').matchAll(/^## (\w+)$/gm)].map(([, name]) => name)
    expect(sections).to.deep.equal(rules.map(({ alert }) => alert))
    for (const { alert, annotations } of rules) {
      const url = `https://github.com/svc-sdk/svc-sdk/blob/main/docs/operations/alerts.md#${alert.toLowerCase()}`
      expect(annotations.runbook_url).to.equal(url)
    }
  })

  it('use, as the dashboards do, metrics that a gateway has', () => {
    const known = new Set(allMetrics.map(({ name }) => name))
    const used = [...rules, ...queries].flatMap(({ expr }) => expr.match(/\bsvc_\w+/g) ?? [])
    const families = used.map((name) => (known.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, '')))
    expect(families.filter((name) => !known.has(name))).to.deep.equal([])
    expect(queries.length).to.be.greaterThan(40)
  })

  it('are valid, and fire when they should and not otherwise, by promtool', function () {
    if (!isInstalled) return skip(this)
    const cwd = join(example, 'prometheus')
    const run = (...args: string[]) =>
      execFileSync('promtool', args, { cwd, encoding: 'utf8', stdio: 'pipe' })
    expect(run('check', 'rules', 'alerts.yml')).to.contain('SUCCESS')
    expect(run('test', 'rules', 'alerts.test.yml')).to.contain('SUCCESS')
    expect(run('check', 'config', '--syntax-only', 'prometheus.yml')).to.contain('SUCCESS')
    const tested = [...readFileSync(join(cwd, 'alerts.test.yml'), 'utf8').matchAll(/alertname="(\w+)"\}/g)]
    expect(tested.map(([, name]) => name)).to.deep.equal(rules.map(({ alert }) => alert))
  })
})

describe('npm start in examples/observability', function () {
  this.timeout(120_000)

  it('has a value for every query of the dashboards, and no alert for a gateway that is well', async function () {
    if (!isInstalled) return skip(this)
    const home = mkdtempSync(join(tmpdir(), 'svc-test-'))
    const child = endWithRunner(
      spawn(process.execPath, [join(example, 'dist', 'start.js'), home], {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, PORTS: 'free', SCRAPE_INTERVAL: '1s' },
      }),
    )
    const exit = once(child, 'exit')
    try {
      let url = ''
      for await (const line of createInterface(child.stdout)) {
        url = /^Prometheus listens on (\S+)/.exec(line)?.[1] ?? ''
        if (url !== '') break
      }
      expect(url, 'what npm start says').to.match(/^http:/)
      child.stdout.resume()
      const missing = new Map(queries.map((query) => [query.expr, query.panel]))
      await until(async () => {
        for (const expr of missing.keys()) if (await hasValue(url, expr)) missing.delete(expr)
        return missing.size === 0
      }, 60_000).catch(async (cause: Error) => {
        const queriesLeft = [...missing].map(([expr, panel]) => `${panel}: ${expr}`).join('\n')
        throw new Error(`${cause.message}; ${await targetsOf(url)}; without a value:\n${queriesLeft}`, {
          cause,
        })
      })
      // What is uploaded is real too: without a bucket this would be zero.
      await until(async () => (await valuesOf(url, 'svc_audit_upload_bytes_total > 0')).length > 0)
      for (const { expr } of rules) expect(await valuesOf(url, expr), expr).to.deep.equal([])
      const { data } = (await (await fetch(`${url}/api/v1/rules`)).json()) as {
        data: { groups: { rules: { name: string; health: string; state: string }[] }[] }
      }
      const loaded = data.groups.flatMap((group) => group.rules)
      expect(loaded.map(({ name }) => name)).to.have.members(rules.map(({ alert }) => alert))
      expect(loaded.filter(({ health }) => health === 'err')).to.deep.equal([])
    } finally {
      child.kill('SIGTERM')
      await exit
      rmSync(home, { recursive: true, force: true })
    }
    expect(child.exitCode).to.equal(0)
  })
})

function skip(context: Mocha.Context): void {
  process.stdout.write('skipped, as prometheus is not installed: apt-get install prometheus\n')
  context.skip()
}

/** What Prometheus says of its targets: whether the last scrape failed, why, and how long it took. */
async function targetsOf(url: string): Promise<string> {
  return (await fetch(`${url}/api/v1/targets?state=active`)).text()
}

/** Whether a query of a dashboard, with the window that Grafana would choose, has a number now. */
async function hasValue(url: string, expr: string): Promise<boolean> {
  const values = await valuesOf(url, expr.replaceAll('$__rate_interval', '4s'))
  return values.some((value) => Number.isFinite(Number(value)))
}

async function valuesOf(url: string, query: string): Promise<string[]> {
  const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`)
  const { status, error, data } = (await response.json()) as {
    status: string
    error?: string
    data?: { result: { value: [number, string] }[] }
  }
  if (status !== 'success') throw new Error(`${query}: ${error}`)
  return (data?.result ?? []).map(({ value: [, value] }) => value)
}
