// Why a server cannot listen where it was told to, in words that say what to do.

const whatToDo = new Map([
  ['EADDRINUSE', 'the port is taken: end what listens there, or choose another port (0 picks a free one)'],
  ['EACCES', 'this user may not listen there: choose a port from 1024 on'],
  ['EADDRNOTAVAIL', 'this machine does not have that address: choose one of its own, or 0.0.0.0 for all'],
])

/** The fault with the remedy in its message and the same `code`; one that is not known stays as it is. */
export function listenError(fault: NodeJS.ErrnoException, at: { host: string; port: number }): Error {
  const remedy = whatToDo.get(fault.code ?? '')
  if (remedy === undefined) return fault
  const address = `${at.host.includes(':') ? `[${at.host}]` : at.host}:${at.port}`
  const told = new Error(`cannot listen on ${address}, ${remedy}`, { cause: fault })
  return Object.assign(told, { code: fault.code })
}
