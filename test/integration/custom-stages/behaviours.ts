// What a custom stage may do wrong, and when it may report a finding. Each behaviour is one function of a stage's `handle`.
import {
  type Call,
  type Completed,
  denied,
  type Finding,
  failed,
  isStream,
  type Next,
  type Outcome,
  Refusal,
  slot,
} from '@svc/core'

/** A stage in JavaScript, which may return any value, and change any object that it can reach. */
type Behaviour = (call: Call, next: Next, late: (work: () => unknown) => void) => unknown

export const REASON = 'probe_found'
const finding: Finding = { reason: REASON, stage: 'probe' }

/** Reports a finding, and returns the `next` that the behaviour gets. */
type Reporting = (call: Call, next: Next, late: (work: () => unknown) => void) => Next

export const reportings: Readonly<Record<string, Reporting>> = {
  nothing: (_call, next) => next,
  'before next': (call, next) => {
    call.addFinding(finding)
    return next
  },
  'before next, to report only': (call, next) => {
    call.addFinding({ ...finding, ruling: 'report' })
    return next
  },
  'before next, to deny': (call, next) => {
    call.addFinding({ ...finding, ruling: 'deny' })
    return next
  },
  'after next': (call, next) => after(call, next, finding),
  'after next, as late': (call, next) => after(call, next, { ...finding, isLate: true }),
  'in the stream': (call, next) => async () => {
    const outcome = await next()
    if (outcome.kind !== 'completed' || !isStream(outcome.body)) return outcome
    const { body } = outcome
    const found = async function* () {
      for await (const chunk of body) {
        call.addFinding(finding)
        yield chunk
      }
    }
    return { ...outcome, body: { [Symbol.asyncIterator]: found } }
  },
  'when it settles': (call, next) => {
    call.onSettle(() => call.addFinding(finding))
    return next
  },
  'after the call': (call, next, late) => {
    late(() => call.addFinding(finding))
    return next
  },
}

function after(call: Call, next: Next, found: Finding): Next {
  return async () => {
    const outcome = await next()
    call.addFinding(found)
    return outcome
  }
}

/** The values that a stage may return or throw instead of an outcome. */
const values: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  null: () => null,
  'a string': () => 'done',
  'an HTTP response': () => ({ status: 200, headers: {}, body: 'done' }),
  'a forged outcome': () => ({ kind: 'completed', sent: 'yes' }),
  'an outcome with a text body': () => ({ ...own(), body: 'done' }),
  'an outcome with an impossible status': () => ({ ...own(), status: 99 }),
  'an outcome with a forged header': () => ({ ...own(), headers: { 'x-a': 'b\r\nc: d' } }),
  'a denial with an unknown code': () => ({ kind: 'denied', sent: 'no', code: 'NOPE', message: 'no' }),
  'a failure without a message': () => ({ kind: 'failed', sent: 'no', code: 'INTERNAL' }),
  'an object that throws when it is read': () => new Proxy({}, { get: fail, has: fail, ownKeys: fail }),
  'a response in a promise of another library': () =>
    Object.fromEntries([['then', (resolve: (value: unknown) => void) => resolve(own())]]),
}

function fail(): never {
  throw new Error('read')
}

function own(): Completed {
  const outcome = {
    kind: 'completed',
    sent: 'yes',
    status: 200,
    headers: {},
    body: Buffer.from('own'),
  } as const
  return outcome
}

const thrown: Readonly<Record<string, () => unknown>> = {
  'an error': () => new Error('boom'),
  'a string': () => 'boom',
  undefined: () => undefined,
  'a refusal': () => new Refusal('RATE_LIMITED', 'slow down'),
  'a refusal with an unknown code': () => Object.assign(new Refusal('INTERNAL', 'x'), { code: 'NOPE' }),
}

const endings: Readonly<Record<string, (next: Next, end: () => unknown) => unknown>> = {
  'without next': (_next, end) => end(),
  'after next': async (next, end) => {
    await next()
    return end()
  },
  'without waiting for next': (next, end) => {
    void next()
    return end()
  },
}

function each(
  what: Readonly<Record<string, () => unknown>>,
  name: (value: string, ending: string) => string,
  use: (value: unknown) => unknown,
): [string, Behaviour][] {
  return Object.entries(what).flatMap(([value, make]) =>
    Object.entries(endings).map(([ending, run]): [string, Behaviour] => [
      name(value, ending),
      (_call, next) => run(next, () => use(make())),
    ]),
  )
}

const others: Readonly<Record<string, Behaviour>> = {
  'passes the call on': (_call, next) => next(),
  'passes the call on, and waits': async (_call, next) => await next(),
  'calls next twice': async (_call, next) => [await next(), await next()][0],
  'calls next twice at once': async (_call, next) => (await Promise.all([next(), next()]))[1],
  'calls next after it has refused': (_call, next, late) => {
    late(next)
    return denied('RATE_LIMITED', 'later')
  },
  'calls next after it has responded': (_call, next, late) => {
    late(next)
    return own()
  },
  'calls next again after the call': (_call, next, late) => {
    late(next)
    return next()
  },
  'hangs until the call is aborted': (call, next) => {
    setTimeout(() => call.abort('CANCELLED', 'stop'), 1)
    return new Promise((_resolve, reject) => {
      call.abortState.addEventListener('abort', () => reject(call.abortState.reason))
    }).then(next)
  },
  'is aborted while it hangs after next': async (call, next) => {
    await next()
    setTimeout(() => call.abort('CANCELLED', 'stop'), 1)
    return new Promise((_resolve, reject) => {
      call.abortState.addEventListener('abort', () => reject(call.abortState.reason))
    })
  },
  'changes the outcome of next': async (_call, next) =>
    Object.assign(await next(), { kind: 'denied', code: 'NOPE', sent: 'no', status: 1 }),
  'changes the headers of next': async (_call, next) => {
    const outcome = await next()
    Object.assign(outcome.headers ?? {}, { 'x-a': 'b\r\nc: d' })
    return outcome
  },
  'changes the arguments': async (call, next) => {
    Object.assign((await call.request()).args as object, { amount: 1_000_000 })
    return next()
  },
  'changes the request': async (call, next) => {
    Object.assign(await call.request(), { args: { amount: 1_000_000 }, kind: 'protocol' })
    return next()
  },
  'states that nothing was sent': async (call, next) => {
    const outcome = await next()
    Object.assign(call, { sent: 'no' })
    return { ...outcome, sent: 'no' }
  },
  'commits the holds itself': async (call, next) => {
    await reach(call, 'commitHolds')
    return next()
  },
  'releases the holds after next': async (call, next) => {
    const outcome = await next()
    await reach(call, 'releaseHolds')
    return outcome
  },
  'settles the call itself': async (call, next) => {
    await reach(call, 'settle', settlement)
    return next()
  },
  'settles the call itself after next': async (call, next) => {
    const outcome = await next()
    await reach(call, 'settle', settlement)
    return outcome
  },
  'states that it was sent': (call, next) => {
    reach(call, 'markSent', 'yes')
    return next()
  },
  'states that it was not sent after next': async (call, next) => {
    const outcome = await next()
    reach(call, 'markSent', 'no')
    return outcome
  },
  'dispatches the call itself': async (call, next) => {
    await reach(call, 'dispatch', () => {
      reach(call, 'markSent', 'yes')
      return own()
    })
    return next()
  },
  'asks the dispatcher of the host itself': async (call, next) => {
    await call.need(slot<(call: Call) => unknown>('svc-sdk/dispatch'))(call)
    return next()
  },
  'throws when the call settles': (call, next) => {
    call.onSettle(fail)
    return next()
  },
  'rejects with no error when the call settles': (call, next) => {
    call.onSettle(() => Promise.reject(undefined))
    return next()
  },
  'has a hold that throws': (call, next) => {
    call.hold({ commit: fail, release: () => undefined })
    return next()
  },
  'has a hold that refuses': (call, next) => {
    call.hold({ commit: () => denied('RATE_LIMITED', 'used up'), release: () => undefined })
    return next()
  },
  'has a hold that cannot be released': (call, next) => {
    call.hold({ commit: () => undefined, release: fail })
    return next()
  },
  'breaks the body': async (_call, next) => withBody(await next(), fail),
  'has chunks that are not bytes': async (_call, next) => withBody(await next(), () => ({ bytes: 'text' })),
}

/** Calls a member that the types do not have, as a stage in JavaScript can. */
function reach(call: Call, name: string, ...given: unknown[]): unknown {
  return Reflect.apply(Reflect.get(call, name), call, given)
}

const settlement = { outcome: own(), status: 200, sent: 'yes', bytes: 3, digest: null, error: null }

const never = new Promise<never>(() => undefined)

/** Behaviours that end neither by themselves nor by an abort: the caller disconnects. */
export const endless: ReadonlyMap<string, Behaviour> = new Map(
  Object.entries<Behaviour>({
    'returns what never calls back': () => ({ then: () => undefined }),
    'never ends after next': async (_call, next) => {
      await next()
      return never
    },
    'has a hold that never commits': (call, next) => {
      call.hold({ commit: () => never, release: () => undefined })
      return next()
    },
    'has a hold whose release never ends': (call) => {
      call.hold({ commit: () => undefined, release: () => never })
      return denied('RATE_LIMITED', 'later')
    },
    'has a settle handler that never ends': (call, next) => {
      call.onSettle(() => never)
      return next()
    },
  }),
)

function withBody(outcome: Outcome, chunk: () => unknown): unknown {
  if (outcome.kind !== 'completed') return outcome
  const chunks = async function* () {
    yield chunk()
  }
  return { ...outcome, body: { [Symbol.asyncIterator]: chunks } }
}

export const behaviours: ReadonlyMap<string, Behaviour> = new Map([
  ...Object.entries(others),
  ...each(
    values,
    (value, ending) => `returns ${value} ${ending}`,
    (value) => value,
  ),
  ...each(
    {
      'a denial': () => denied('RATE_LIMITED', 'no'),
      'a failure': () => failed('STORE_UNAVAILABLE', 'no'),
      'a response': own,
    },
    (value, ending) => `returns ${value} of its own ${ending}`,
    (value) => value,
  ),
  ...each(
    thrown,
    (value, ending) => `throws ${value} ${ending}`,
    (value) => {
      throw value
    },
  ),
  ...each(
    thrown,
    (value, ending) => `rejects with ${value} ${ending}`,
    (value) => Promise.reject(value),
  ),
])
