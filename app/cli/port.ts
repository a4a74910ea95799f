// Reads a port number among the options of a command.
import { InvalidArgumentError } from 'commander'

/** Throws `InvalidArgumentError`. */
export function portOf(text: string): number {
  const port = Number(text)
  if (!/^\d+$/.test(text) || port > 65535) throw new InvalidArgumentError('expected 0 to 65535')
  return port
}
