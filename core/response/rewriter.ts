// The changes of a stage in the responses of calls, for every protocol and transport.
import type { MaybePromise } from '../call/maybe-promise.js'

type Fields = Readonly<Record<string, unknown>>

/** Each function returns the same value if it changes nothing. `size` is that of the JSON or text, in UTF-16 code units. */
export interface ResponseRewriter {
  /** The result of an MCP method; the new one is valid under the schema of its result. */
  result(result: unknown, method: string | null, size: number): MaybePromise<unknown>
  /** A JSON-RPC error, with an integer code and a message. */
  error(error: unknown, size: number): MaybePromise<unknown>
  /** A request or notification of an MCP server on the stream of the call; undefined removes it. */
  message(message: Fields): MaybePromise<Fields | undefined>
  /** The JSON of another response. */
  json(value: unknown, size: number): MaybePromise<unknown>
  /** Another response that is text, or what one of its events has. */
  text(text: string): MaybePromise<string>
  /**
   * In place of what is neither JSON nor text, or larger than can be read; of a stream such parts are removed. Undefined has
   * such a body, except one of a medium, read as text: what clients take for text is not up to its type.
   */
  readonly unreadable: string | undefined
  /** In place of a plain body that is too large, or in a coding; undefined lets it pass. Absent: as `unreadable`. */
  unread?(): MaybePromise<string | undefined>
  /** Characters of the plain stream before an event that are read with it. */
  readonly context?: number
  /** Whether events of a plain stream must not be judged one by one: all are removed, and `unreadable` ends the stream. */
  readonly spansEvents: boolean
}
