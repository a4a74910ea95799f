// Explains why a server cannot listen at its address, and how to fix that.

const remedies = new Map([
  ['EADDRINUSE', 'the port is taken: end what listens there, or choose another port (0 picks a free one)'],
  ['EACCES', 'this user may not listen there: choose a port from 1024 on'],
  ['EADDRNOTAVAIL', 'this machine does not have that address: choose one of its own, or 0.0.0.0 for all'],
])

/** The error with the remedy in its message and the same `code`; an unknown error is returned as it is. */
export function listenError(fault: NodeJS.ErrnoException, at: { host: string; port: number }): Error {
  const remedy = remedies.get(fault.code ?? '')
  if (remedy === undefined) return fault
  const address = `${at.host.includes(':') ? `[${at.host}]` : at.host}:${at.port}`
  const explained = new Error(`cannot listen on ${address}, ${remedy}`, { cause: fault })
  return Object.assign(explained, { code: fault.code })
}
