import {
  type Completed,
  type Failed,
  failed,
  type Outcome,
  Refusal,
  type ResponseChunk,
  type Settlement,
  type Stage,
  verdict,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import { controlOf, makeCall } from '../../support/call.js'
import { rejectionOf } from '../../support/rejection.js'

const bytes = (text: string): Uint8Array => Buffer.from(text)

function responding(body: Completed['body'], more: Partial<Completed> = {}): () => Promise<Outcome> {
  return async () => ({ kind: 'completed', status: 200, headers: {}, body, ...more })
}

async function* pieces(...texts: string[]): AsyncGenerator<ResponseChunk> {
  for (const text of texts) yield { bytes: bytes(text) }
}

/** A stage that keeps every settlement, or fails to. */
function recorder(error?: Error): { stage: Stage; settlements: Settlement[] } {
  const settlements: Settlement[] = []
  return {
    settlements,
    stage: {
      handle(call, next) {
        call.onSettle((settlement) => {
          settlements.push(settlement)
          if (error !== undefined) throw error
        })
        return next()
      },
    },
  }
}

function pipelineOf(stage: Stage, dispatch: () => Promise<Outcome>): Pipeline {
  return new Pipeline([{ name: 'recorder', stage }], dispatch)
}

async function textOf(outcome: Outcome): Promise<string> {
  if (outcome.kind !== 'completed') return expect.fail(`not completed: ${outcome.code}`)
  if (outcome.body instanceof Uint8Array) return Buffer.from(outcome.body).toString()
  let text = ''
  for await (const chunk of outcome.body) text += Buffer.from(chunk.bytes).toString()
  return text
}

describe('settlement', () => {
  it('has the size, digest and error of the part of a batched stream that is the response', async () => {
    for (const failure of [undefined, new Refusal('OUTCOME_UNRECORDED', 'the disk is full')]) {
      const { stage, settlements } = recorder()
      const other = makeCall()
      const others: Settlement[] = []
      other.onSettle((settlement) => {
        others.push(settlement)
        if (failure !== undefined) throw failure
      })
      const instead = ({ code }: Failed): Uint8Array => bytes(code)
      const body = async function* (): AsyncGenerator<ResponseChunk> {
        yield { bytes: bytes('x'), response: { call: other, digest: 'd', error: 'UPSTREAM', instead } }
      }
      const outcome = await pipelineOf(stage, responding(body())).run(controlOf(makeCall()))
      expect(await textOf(outcome)).to.equal(failure === undefined ? 'x' : 'OUTCOME_UNRECORDED')
      expect(others).to.have.length(1)
      expect(others[0]).to.include({ digest: 'd', error: 'UPSTREAM', sent: 'yes', bytes: 1 })
      expect(settlements.map(({ error }) => error)).to.deep.equal([null])
    }
  })

  it('gives handlers the status, size and digest of a complete response before it is returned', async () => {
    const { stage, settlements } = recorder()
    await pipelineOf(stage, responding(bytes('hello'))).run(controlOf(makeCall()))
    expect(settlements).to.have.length(1)
    expect(settlements[0]).to.include({
      status: 200,
      sent: 'yes',
      bytes: 5,
      digest: sha256Hex('hello'),
      error: null,
    })
  })

  it('uses the digest of the response if it has one', async () => {
    const { stage, settlements } = recorder()
    await pipelineOf(stage, responding(bytes('hello'), { digest: null })).run(controlOf(makeCall()))
    expect(settlements[0]?.digest).to.equal(null)
  })

  it('runs handlers from the innermost stage outward', async () => {
    const seen: string[] = []
    const noting = (name: string) => ({
      name,
      stage: {
        handle: (call, next) => {
          call.onSettle(() => {
            seen.push(name)
          })
          return next()
        },
      } satisfies Stage,
    })
    await new Pipeline([noting('outer'), noting('inner')], responding(bytes(''))).run(controlOf(makeCall()))
    expect(seen).to.deep.equal(['inner', 'outer'])
  })

  it('withholds the response when a handler refuses, with its code, and says whether the call may have run', async () => {
    const { stage } = recorder(new Refusal('OUTCOME_UNRECORDED', 'disk full'))
    const outcome = await pipelineOf(stage, responding(bytes('secret response'))).run(controlOf(makeCall()))
    expect(outcome).to.include({ kind: 'failed', code: 'OUTCOME_UNRECORDED' })
  })

  it('responds INTERNAL when a handler fails', async () => {
    const { stage } = recorder(new Error('boom'))
    const outcome = await pipelineOf(stage, async () => failed('UPSTREAM_UNREACHABLE', 'down')).run(
      controlOf(makeCall()),
    )
    expect(outcome).to.include({ kind: 'failed', code: 'INTERNAL' })
  })

  it('runs the outer handlers after an inner one failed, with the resulting error', async () => {
    const outer = recorder()
    const inner = recorder(new Error('boom'))
    const stages = [
      { name: 'outer', stage: outer.stage },
      { name: 'inner', stage: inner.stage },
    ]
    const outcome = await new Pipeline(stages, responding(bytes('hello'))).run(controlOf(makeCall()))
    expect(outcome).to.include({ code: 'INTERNAL' })
    expect(inner.settlements[0]).to.include({ error: null })
    expect(outer.settlements).to.have.length(1)
    expect(outer.settlements[0]).to.include({ error: 'INTERNAL', digest: sha256Hex('hello') })
  })

  it('settles a stream at its end, over all of its bytes', async () => {
    const { stage, settlements } = recorder()
    const outcome = await pipelineOf(stage, responding(pieces('hel', 'lo'))).run(controlOf(makeCall()))
    expect(settlements).to.have.length(0)
    expect(await textOf(outcome)).to.equal('hello')
    expect(settlements[0]).to.include({ bytes: 5, digest: sha256Hex('hello'), error: null })
  })

  it('aborts a stream whose end cannot be recorded', async () => {
    const { stage } = recorder(new Refusal('OUTCOME_UNRECORDED', 'disk full'))
    const outcome = await pipelineOf(stage, responding(pieces('a'))).run(controlOf(makeCall()))
    const error = await rejectionOf(textOf(outcome))
    expect(error).to.be.instanceOf(Refusal).and.have.property('code', 'OUTCOME_UNRECORDED')
  })

  it('holds back the chunk with the response until the call has settled', async () => {
    const { stage, settlements } = recorder()
    async function* stream(): AsyncGenerator<ResponseChunk> {
      yield { bytes: bytes('progress;') }
      expect(settlements).to.have.length(0)
      yield { bytes: bytes('response'), response: { digest: 'd', instead: () => bytes('never') } }
    }
    const outcome = await pipelineOf(stage, responding(stream())).run(controlOf(makeCall()))
    expect(await textOf(outcome)).to.equal('progress;response')
    expect(settlements).to.have.length(1)
    expect(settlements[0]).to.include({ digest: 'd' })
  })

  it('replaces that chunk by the error when the record fails', async () => {
    const { stage } = recorder(new Refusal('OUTCOME_UNRECORDED', 'disk full'))
    const instead = (failure: Failed): Uint8Array => bytes(failure.code)
    const stream = (async function* (): AsyncGenerator<ResponseChunk> {
      yield { bytes: bytes('response'), response: { digest: 'd', instead } }
    })()
    const outcome = await pipelineOf(stage, responding(stream)).run(controlOf(makeCall()))
    expect(await textOf(outcome)).to.equal('OUTCOME_UNRECORDED')
  })

  it('settles each call of a batch with the code of the finding that refuses a response', async () => {
    const { stage, settlements } = recorder()
    const call = makeCall()
    call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
    const other = makeCall()
    const others: Settlement[] = []
    other.onSettle((settlement) => void others.push(settlement))
    const instead = ({ code }: Failed): Uint8Array => bytes(code)
    const stream = (async function* (): AsyncGenerator<ResponseChunk> {
      call.addFinding({ reason: 'found_later', stage: 's' })
      yield { bytes: bytes('response'), response: { call: other, digest: 'd', instead } }
    })()
    const outcome = await pipelineOf(stage, responding(stream)).run(controlOf(call))
    const text = await textOf(outcome)
    expect(others.map(({ digest, error }) => [digest, error])).to.deep.equal([[null, text]])
    expect(settlements.map(({ error }) => error)).to.deep.equal([text])
  })

  it('settles once when the reader stops early', async () => {
    const { stage, settlements } = recorder()
    const outcome = await pipelineOf(stage, responding(pieces('a', 'b', 'c'))).run(controlOf(makeCall()))
    if (outcome.kind !== 'completed' || outcome.body instanceof Uint8Array) return expect.fail('no stream')
    for await (const _chunk of outcome.body) break
    expect(settlements).to.have.length(1)
    expect(settlements[0]).to.include({ bytes: 1, digest: null })
  })

  it('settles with UPSTREAM_UNREACHABLE when the upstream aborts', async () => {
    const { stage, settlements } = recorder()
    async function* broken(): AsyncGenerator<ResponseChunk> {
      yield { bytes: bytes('a') }
      throw new Error('reset')
    }
    const outcome = await pipelineOf(stage, responding(broken())).run(controlOf(makeCall()))
    await textOf(outcome).then(
      () => expect.fail('did not break off'),
      (error: unknown) => expect(error).to.have.property('message', 'reset'),
    )
    expect(settlements[0]).to.include({ error: 'UPSTREAM_UNREACHABLE', digest: null })
  })

  it('settles with the code of the abort when the call was aborted', async () => {
    const { stage, settlements } = recorder()
    const call = makeCall()
    async function* broken(): AsyncGenerator<ResponseChunk> {
      yield { bytes: bytes('a') }
      call.abort('DURATION_EXCEEDED', 'too long')
      throw new Error('aborted')
    }
    const outcome = await pipelineOf(stage, responding(broken())).run(controlOf(call))
    await textOf(outcome).then(
      () => expect.fail('did not break off'),
      () => undefined,
    )
    expect(settlements[0]).to.include({ error: 'DURATION_EXCEEDED' })
  })
})

describe('holds', () => {
  const holding = (log: string[]): Stage => ({
    handle(call, next) {
      call.hold({
        commit: () => {
          log.push('commit')
          return undefined
        },
        release: () => {
          log.push('release')
        },
      })
      return next()
    },
  })

  it('are released when the call was not sent', async () => {
    const log: string[] = []
    await pipelineOf(holding(log), async () => failed('UPSTREAM_UNREACHABLE', 'down')).run(
      controlOf(makeCall()),
    )
    expect(log).to.deep.equal(['release'])
  })

  it('are committed when it was sent', async () => {
    const log: string[] = []
    const call = makeCall()
    await pipelineOf(holding(log), async () => {
      await controlOf(call).commitHolds()
      return { kind: 'completed', status: 200, headers: {}, body: bytes('') }
    }).run(controlOf(call))
    expect(log).to.deep.equal(['commit'])
  })

  it('that cannot be released fail the call', async () => {
    const stuck: Stage = {
      handle(call, next) {
        call.hold({ commit: () => undefined, release: () => Promise.reject(new Error('store is down')) })
        return next()
      },
    }
    const outcome = await pipelineOf(stuck, async () => failed('UPSTREAM_UNREACHABLE', 'down')).run(
      controlOf(makeCall()),
    )
    expect(outcome).to.include({ code: 'STORE_UNAVAILABLE' })
  })
})
