import { expect } from 'chai'
import { SignalLosses } from 'svc-sdk/internal/telemetry/losses'
import { type Signal, wantedSignals } from 'svc-sdk/internal/telemetry/signals'
import { keepingLogger } from '../../support/logger.js'

describe('the signals that the environment asks for', () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' }
  const rows: readonly (readonly [string, Record<string, string>, readonly Signal[], number])[] = [
    ['nothing', {}, [], 0],
    ['an endpoint', endpoint, ['traces', 'metrics', 'logs'], 0],
    ['one endpoint', { OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: 'http://127.0.0.1:1' }, ['logs'], 0],
    ['one exporter', { OTEL_METRICS_EXPORTER: 'otlp' }, ['metrics'], 0],
    ['not one', { ...endpoint, OTEL_METRICS_EXPORTER: 'none' }, ['traces', 'logs'], 0],
    ['an empty exporter', { ...endpoint, OTEL_METRICS_EXPORTER: '' }, ['traces', 'metrics', 'logs'], 0],
    [
      'an exporter that is not there',
      { ...endpoint, OTEL_LOGS_EXPORTER: 'console' },
      ['traces', 'metrics'],
      1,
    ],
    ['several exporters', { OTEL_TRACES_EXPORTER: 'zipkin, otlp' }, ['traces'], 1],
    [
      'another protocol',
      { ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
      ['traces', 'metrics', 'logs'],
      1,
    ],
    ['no SDK', { ...endpoint, OTEL_SDK_DISABLED: 'TRUE' }, [], 0],
  ]
  for (const [title, env, expected, warnings] of rows) {
    it(`are those by the standard: ${title}`, () => {
      const logger = keepingLogger()
      expect([...wantedSignals(env, logger)]).to.deep.equal(expected)
      expect(logger.lines.map(({ level }) => level)).to.deep.equal(Array(warnings).fill('warn'))
    })
  }
})

describe('the queue of a signal', () => {
  it('counts what it has no room for, and logs that once', () => {
    const logger = keepingLogger()
    const losses = new SignalLosses('traces', logger, 3)
    const admitted = Array.from({ length: 10 }, () => losses.admits())
    expect(admitted.filter(Boolean)).to.have.length(3)
    expect(losses.lost).to.equal(7)
    losses.left(3)
    expect(losses.admits()).to.equal(true)
    expect(logger.lines.map(({ fields }) => fields)).to.deep.equal([
      { signal: 'traces', reason: 'the queue is full' },
    ])
  })

  it('logs the end of an outage with what was lost, and a receiver that fails now and then once a minute', () => {
    const logger = keepingLogger()
    const losses = new SignalLosses('logs', logger)
    losses.failed(2, 'gone')
    losses.failed(3, 'gone')
    losses.succeeded()
    losses.succeeded()
    for (let n = 0; n < 5; n++) {
      losses.failed(1, 'gone again')
      losses.succeeded()
    }
    expect(logger.lines.map(({ level, fields }) => [level, fields])).to.deep.equal([
      ['warn', { signal: 'logs', reason: 'gone' }],
      ['info', { signal: 'logs', lost: 5 }],
    ])
    expect(losses.lost).to.equal(10)
  })
})
