// The model of a space that notices the loss of its content.

export class EpochsModel {
  /** Counted from 1; undefined before the first use. */
  #epoch: number | undefined
  #epochs = 0
  #isLost = false
  /** The epoch that each client knows. */
  #known = new Map<number, number>()

  /** A client uses the space: true if it has to hear of a loss. */
  use(client: number): boolean {
    const before = this.#known.get(client)
    if (this.#epoch === undefined) {
      this.#epoch = ++this.#epochs
      this.#isLost = before !== undefined
    } else if (before !== undefined && before !== this.#epoch) this.#isLost = true
    this.#known.set(client, this.#epoch)
    return this.#isLost
  }

  lose(): void {
    this.#epoch = undefined
  }

  restart(client: number): void {
    this.#known.delete(client)
  }
}
