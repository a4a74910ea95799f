import { expect } from 'chai'

/** The reason with which a promise rejects. The test fails if it resolves. */
export async function rejectionOf<Reason = Error>(promise: Promise<unknown>): Promise<Reason> {
  try {
    await promise
  } catch (reason) {
    return reason as Reason
  }
  return expect.fail('the promise was not rejected')
}
