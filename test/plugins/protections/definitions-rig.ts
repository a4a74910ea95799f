// The stage of definitions by itself: callers receive lists, and call tools.
import { definitionFilter, type GatewayEvent, type ReceivedDefinition, type Stage, services } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { protectionsPlugin } from '@svc/plugin-protections'
import { makeCall } from '../../support/call.js'
import { StageRig, served } from '../../support/stage-rig.js'

export class DefinitionsRig extends StageRig {
  readonly events: GatewayEvent[] = []

  async open(definitions: object): Promise<Stage> {
    this.bind(services.record, async (event) => void this.events.push(event))
    return this.start(protectionsPlugin, { definitions })
  }
}

export const tool = (name: string, description = ''): ReceivedDefinition => ({
  kind: 'tool',
  name,
  value: { name, description },
})

/** The names that the caller is shown. */
export async function shownTo(
  stage: Stage,
  user: string,
  received: readonly ReceivedDefinition[],
  server = 'files',
): Promise<string[]> {
  const call = makeCall({
    tool: 'tools/list',
    server,
    caller: { user, userId: user },
  })
  let withheld: ReadonlySet<ReceivedDefinition> = new Set()
  await stage.handle(call, async () => {
    const sha256 = sha256Hex(JSON.stringify(received))
    withheld = await call.need(definitionFilter).withheld(call, { sha256, definitions: () => received })
    return served
  })
  return received.flatMap((one) => (withheld.has(one) ? [] : [one.name]))
}

/** The reasons of the findings about a call of the tool. */
export async function reasonsFor(
  stage: Stage,
  user: string,
  name: string,
  server = 'files',
): Promise<string[]> {
  const call = makeCall({ tool: name, server, caller: { user, userId: user } })
  await stage.handle(call, () => served)
  return call.findings.map(({ reason }) => reason)
}
