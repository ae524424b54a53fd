"""What rankings teach, one module for each way of reading rewards; all are losses of one softmax policy."""
