// The cost of metrics, traces and logs, as a share of a whole call: the same calls with and without them.
import { createServer } from 'node:http'
import { cpuOfCalls, reportCpu } from './gateway/cpu-of-calls.js'
import { listen } from './gateway/listen.js'
import { heading } from './measure/report.js'

const NONE = 'none'
const admin = { admin: { port: 0 } }

/** The rounds, by what is on. */
export async function measureSignals(disk: string, quick: boolean): Promise<unknown> {
  heading('Signals: CPU of a call')
  // It only accepts; what a receiver does with the spans is its own cost.
  const receiver = createServer((request, response) => {
    request.resume().once('end', () => response.end('{}'))
  })
  const url = `http://127.0.0.1:${await listen(receiver)}`
  const otlp = (...signals: string[]) =>
    Object.fromEntries(signals.map((signal) => [`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, `${url}/${signal}`]))
  const environments = new Map<string, Record<string, string>>([
    [NONE, {}],
    ['the same again', {}],
    ['Prometheus', {}],
    ['metrics over OTLP', otlp('METRICS')],
    [
      'traces over OTLP, one call in ten',
      { ...otlp('TRACES'), OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.1' },
    ],
    ['traces over OTLP', otlp('TRACES')],
    ['all three over OTLP', otlp('TRACES', 'METRICS', 'LOGS')],
  ])
  const settings = new Map([...environments.keys()].map((name) => [name, name === 'Prometheus' ? admin : {}]))
  try {
    const rounds = await cpuOfCalls(disk, quick, settings, (name) => ({
      execArgv: ['--conditions=svc-internal'],
      env: environments.get(name) ?? {},
    }))
    reportCpu(rounds, NONE)
    return Object.fromEntries(rounds)
  } finally {
    receiver.closeAllConnections()
    receiver.close()
  }
}
