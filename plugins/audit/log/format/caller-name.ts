// The name of a record's caller, as every list, count and sentence shows it.

/** A token without a user belongs to a service agent, whose subject may be any identifier. */
const callerMembers = ['user', 'client_id', 'user_id'] as const

/** The name of a caller of whom neither a token nor the caller itself says who it is. */
export const ANONYMOUS = 'anonymous'

/** The one name of a record's caller: by its token, else the agent that it says it is, else `anonymous`. */
export function callerIn(
  record: Readonly<Partial<Record<'principal' | 'agentRef' | 'nodeId', unknown>>>,
): string {
  const { principal, agentRef, nodeId } = record
  return callerNameIn(principal) ?? [agentRef, nodeId].find((name) => typeof name === 'string') ?? ANONYMOUS
}

/** Reads the member `principal` of a record, which anybody may have written; undefined if it names nobody. */
export function callerNameIn(principal: unknown): string | undefined {
  if (typeof principal !== 'object' || principal === null) return undefined
  const names: Readonly<Record<string, unknown>> = { ...principal }
  return callerMembers.map((member) => names[member]).find((name) => typeof name === 'string')
}
