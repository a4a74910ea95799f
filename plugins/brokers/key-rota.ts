// Which key of a pool is whose turn, which rest, and which MCP session began with which key. It outlives a
// reload, or a policy that is read anew would wake every key.

const maxSessions = 10_000

export class KeyRota {
  /** Monotonic milliseconds until which each key rests. */
  #restUntil: number[]
  #turn = 0
  #sessions = new Map<string, number>()

  constructor(size: number) {
    this.#restUntil = new Array<number>(size).fill(Number.NEGATIVE_INFINITY)
  }

  /**
   * The keys that may be used now, by their index, in the order in which to try them. `preferred` comes first
   * while it does not rest; otherwise it is the next key's turn.
   */
  usable(now: number, preferred?: number): number[] {
    const awake = this.#restUntil.flatMap((until, index) => (now < until ? [] : [index]))
    if (awake.length === 0) return []
    if (preferred !== undefined && awake.includes(preferred)) {
      return [preferred, ...awake.filter((index) => index !== preferred)]
    }
    const at = Math.max(
      awake.findIndex((index) => index >= this.#turn),
      0,
    )
    return [...awake.slice(at), ...awake.slice(0, at)]
  }

  /** The key was used: it is the next one's turn. */
  used(index: number): void {
    this.#turn = (index + 1) % this.#restUntil.length
  }

  rest(index: number, until: number): void {
    this.#restUntil[index] = until
  }

  wake(index: number): void {
    this.#restUntil[index] = Number.NEGATIVE_INFINITY
  }

  /** Milliseconds until some key wakes; 0 where one is awake. */
  wakesIn(now: number): number {
    return Math.max(0, Math.min(...this.#restUntil) - now)
  }

  /** The key that the session is served with, as far as it is remembered. `session` is a hash of its id. */
  keyOf(session: string): number | undefined {
    return this.#sessions.get(session)
  }

  /** The oldest sessions are forgotten first; one that is forgotten goes on with whichever key's turn it is. */
  serve(session: string, index: number): void {
    this.#sessions.delete(session)
    this.#sessions.set(session, index)
    if (this.#sessions.size <= maxSessions) return
    const [oldest] = this.#sessions.keys()
    if (oldest !== undefined) this.#sessions.delete(oldest)
  }
}
