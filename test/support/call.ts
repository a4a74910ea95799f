// The call of this project's tests of single stages: `echo@1.0.0` on server `files`.
import type { Call } from '@svc/core'
import { type FakeCall, fakeCall } from 'svc-sdk/testing'

export type CallOverrides = FakeCall

export function makeCall(overrides: CallOverrides = {}): Call {
  return fakeCall({ server: 'files', tool: 'echo', ...overrides })
}
