// What the rules on arguments say of one set of arguments.
import type { Finding } from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import { makeCall } from '../../support/call.js'
import { run, securityStage, served } from './stage.js'

async function findingsOf(security: object, args: JsonValue): Promise<readonly Finding[]> {
  const call = makeCall({ args })
  await securityStage(security).handle(call, async () => served())
  return call.findings
}

export async function detailsOf(security: object, args: JsonValue): Promise<(string | undefined)[]> {
  return (await findingsOf(security, args)).map(({ detail }) => detail)
}

/** The answer that the caller gets, with the findings. */
export async function answered(security: object, args: JsonValue, enforcement: object = {}) {
  const call = makeCall({ args })
  let isSent = false
  const outcome = await run({ security, enforcement }, call, async () => {
    isSent = true
    return served()
  })
  return { outcome, isSent, reasons: call.findings.map(({ reason }) => reason) }
}
