import { expect } from 'chai'

/** The error object of a refused call of a tool, whose result has it. */
export async function refusalOf(call: Promise<unknown>): Promise<Record<string, unknown>> {
  const result = await call
  expect(result).to.have.property('isError', true)
  return (result as { _meta: Record<string, Record<string, unknown>> })._meta['svc/error'] ?? {}
}

/** The reason with which a promise rejects. The test fails if it resolves. */
export async function rejectionOf<Reason = Error>(promise: Promise<unknown>): Promise<Reason> {
  try {
    await promise
  } catch (reason) {
    return reason as Reason
  }
  return expect.fail('the promise was not rejected')
}
