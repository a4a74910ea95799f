// `npm start`: a gateway with a tool server and callers, and Prometheus, which reads its metrics and evaluates the alerts.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startExampleGateway } from '@svc/example-quick-start/gateway'
import { startToolServer } from '@svc/example-quick-start/tool-server'
import { Program } from '@svc/example-several-hosts/program'
import { startUploadStore } from '@svc/example-several-hosts/upload-store'
import { messageOf } from 'svc-sdk/core/json'
import { callContinually } from './callers.js'
import { startPrometheus } from './prometheus.js'

const example = fileURLToPath(new URL('..', import.meta.url))
const gatewayName = 'observed-gateway'
/** Where `.svc` is kept: the argument, else this directory. */
const home = resolve(process.argv[2] ?? example)
/** PORTS=free takes free ports in place of the usual ones; SCRAPE_INTERVAL is that of Prometheus. */
const { PORTS, SCRAPE_INTERVAL = '5s' } = process.env
const portOf = (usual: number): number => (PORTS === 'free' ? 0 : usual)

/** What has been started, to be stopped in reverse. */
const stops: (() => Promise<void>)[] = []
let isStopping = false

process.on('SIGINT', () => void stop(0))
process.on('SIGTERM', () => void stop(0))
try {
  await start()
} catch (error) {
  console.error(messageOf(error))
  await stop(1)
}

async function start(): Promise<void> {
  if (spawnSync('prometheus', ['--version'], { stdio: 'ignore' }).error !== undefined)
    throw new Error('prometheus is not installed; on Debian: apt-get install prometheus')
  const state = join(home, '.svc')
  mkdirSync(state, { recursive: true, mode: 0o700 })
  const store = await startUploadStore({
    dir: state,
    tenant: 'demo',
    gateways: [gatewayName],
    program(options) {
      const output = join(state, `${options.name}.txt`)
      const program = new Program({ ...options, output, onSpawn: () => undefined })
      stops.push(() => program.end('SIGTERM'))
      return program
    },
  })
  process.env['CONTROL_PLANE_URL'] = store.url
  process.env['SVC_AUDIT_KEY'] = store.keys.get(gatewayName)
  const tools = await startToolServer(portOf(8788))
  stops.push(() => tools.close())
  const policy = readFileSync(join(example, 'policy.yaml'), 'utf8')
    .replace('http://127.0.0.1:8788/billing', tools.url)
    .replace('port: 8789', `port: ${portOf(8789)}`)
  const gateway = await startExampleGateway(policy, join(home, 'policy.yaml'), portOf(8787))
  stops.push(() => gateway.handle.close())
  const callers = callContinually(gateway.url)
  stops.push(() => callers.stop())
  const prometheus = await startPrometheus({
    config: join(example, 'prometheus', 'prometheus.yml'),
    dir: join(state, 'prometheus'),
    port: portOf(9090),
    scrapeInterval: SCRAPE_INTERVAL,
    target: new URL(gateway.adminUrl).host,
    tokenFile: gateway.tokenFile,
  })
  stops.push(() => prometheus.stop())
  console.log(
    [
      `The gateway listens on ${gateway.url}, and callers send it some calls a second.`,
      `Prometheus listens on ${prometheus.url}`,
      `  alerts      ${prometheus.url}/alerts`,
      `  a query     ${prometheus.url}/graph?g0.tab=0&g0.expr=sum+by+(decision)+(rate(svc_calls_total%5B1m%5D))`,
      'Grafana: add this Prometheus as a data source, and import grafana/*.json.',
      'Ctrl-C stops all of it.',
    ].join('\n'),
  )
}

/** Once: under npm, one Ctrl-C arrives twice, from the terminal and from npm. */
async function stop(code: number): Promise<void> {
  if (isStopping) return
  isStopping = true
  let status = code
  for (const one of stops.reverse()) {
    try {
      await one()
    } catch (error) {
      console.error(messageOf(error))
      status = 1
    }
  }
  process.exit(status)
}
