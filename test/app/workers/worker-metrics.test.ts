import { expect } from 'chai'
import { MetricsOfWorkers } from 'svc-sdk/internal/workers/worker-metrics'
import type { WorkerProcess } from 'svc-sdk/internal/workers/worker-process'

const textOf = (calls: number, ready: number) => `# HELP svc_calls_total Calls.
# TYPE svc_calls_total counter
svc_calls_total{server="a b",code="OK"} ${calls}

# HELP svc_ready Ready.
# TYPE svc_ready gauge
svc_ready ${ready}
# HELP d Durations.
# TYPE d histogram
d_bucket{le="+Inf",server="x"} ${calls}
d_sum{server="x"} 0.5
# HELP process_cpu_seconds_total CPU.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 7
`

/** `metrics` is null for a worker that does not respond. */
function worker(number: number, metrics: string | null): WorkerProcess {
  return { number, isServing: true, metrics: async () => metrics } as unknown as WorkerProcess
}

/** The samples, without lines that say what they mean. */
const samples = (text: string) => text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

describe('the metrics of workers', () => {
  it('add up counters and histograms, and label gauges and what is of a process', async () => {
    const text = await new MetricsOfWorkers(() => [worker(0, textOf(2, 1)), worker(1, textOf(3, 0))]).text()
    expect(samples(text)).to.deep.equal([
      'svc_calls_total{server="a b",code="OK"} 5',
      'd_bucket{le="+Inf",server="x"} 5',
      'd_sum{server="x"} 1',
      'svc_ready{worker="0"} 1',
      'svc_ready{worker="1"} 0',
      'process_cpu_seconds_total{worker="0"} 7',
      'process_cpu_seconds_total{worker="1"} 7',
      'svc_workers 2',
      'svc_worker_restarts_total 0',
    ])
    expect(text.match(/^# TYPE svc_calls_total counter$/gm)).to.have.length(1)
  })

  it('keep what a worker had counted that has ended, so that no counter falls', async () => {
    let workers = [worker(0, textOf(2, 1)), worker(1, textOf(3, 1))]
    const metrics = new MetricsOfWorkers(() => workers)
    await metrics.text()
    metrics.ended(1)
    metrics.replaced()
    workers = [worker(0, textOf(4, 1)), worker(1, textOf(1, 1))]
    const text = await metrics.text()
    expect(samples(text)).to.include.members([
      'svc_calls_total{server="a b",code="OK"} 8',
      'svc_worker_restarts_total 1',
    ])
  })

  it('have the last values of a worker that does not respond', async () => {
    let workers = [worker(0, textOf(2, 1))]
    const metrics = new MetricsOfWorkers(() => workers)
    await metrics.text()
    workers = [worker(0, null)]
    const text = await metrics.text()
    expect(samples(text)).to.include('svc_calls_total{server="a b",code="OK"} 2')
  })
})
