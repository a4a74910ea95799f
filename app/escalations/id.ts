/** The characters of an escalation's id, so that nothing else reaches a store. */
export function isEscalationId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,128}$/.test(text)
}
